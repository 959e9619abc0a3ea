{{- define "dtj.name" -}}
{{- if contains "dtj" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-dtj" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "dtj.selectorLabels" -}}
app.kubernetes.io/name: dtj-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dtj.labels" -}}
{{ include "dtj.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "dtj.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "dtj.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "dtj.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Of what belongs to the whole cluster: two releases must not share it. */}}
{{- define "dtj.clusterName" -}}
{{ include "dtj.name" . }}.{{ .Release.Namespace }}
{{- end }}

{{- define "dtj.webhookHost" -}}
{{ include "dtj.name" . }}-webhook.{{ .Release.Namespace }}.svc
{{- end }}

{{/* What the operator does in the API, and nothing else. */}}
{{- define "dtj.rules" -}}
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs/status]
  verbs: [patch]
# ownerReferences with blockOwnerDeletion need this where OwnerReferencesPermissionEnforcement is on
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [list, create, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* The same of what is in no namespace. */}}
{{- define "dtj.clusterRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}

{{/* Of the operator's own namespace: the lease of whoever is at work. A creation cannot be limited to a name. */}}
{{- define "dtj.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "dtj.name" . }}]
  verbs: [get, update]
{{- end }}

{{/* To tell the API server whom to trust: nothing but its own configuration. */}}
{{- define "dtj.webhookRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ include "dtj.clusterName" . }}]
  verbs: [get, patch]
{{- end }}
