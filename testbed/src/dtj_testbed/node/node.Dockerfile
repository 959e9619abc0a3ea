# A kind node: Debian, the files of kind's own base image (read from kind's Go module), static binaries, and the
# images of the control plane already in containerd's store. Follows images/base/Dockerfile of that module.
ARG DEBIAN
FROM ${DEBIAN} AS base
COPY --chmod=0755 files/usr/local/bin/ /usr/local/bin/
COPY files/kind/ /kind/
COPY files/etc/ /etc/
RUN set -e; chmod 755 /kind /kind/bin /kind/bin/*; \
    rm -f /etc/systemd/system/containerd-fuse-overlayfs.service; \
    find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete; \
    rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
      /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
      /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/*; \
    echo "ReadKMsg=no" >> /etc/systemd/journald.conf; \
    systemctl enable kubelet.service containerd.service undo-mount-hacks.service; \
    systemctl mask systemd-binfmt.service; \
    mkdir -p /etc/kubernetes/manifests /kind/manifests
# Without CAP_SYS_RESOURCE no process may lower its score, and every sandbox would die of the attempt.
RUN sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml \
 && grep -q 'restrict_oom_score_adj = true' /etc/containerd/config.toml

FROM base AS node
COPY bin/containerd bin/containerd-shim-runc-v2 bin/ctr bin/crictl /usr/local/bin/
COPY bin/host-local bin/loopback bin/ptp bin/portmap /opt/cni/bin/
COPY bin/kubeadm bin/kubelet bin/kubectl /usr/bin/
RUN ctr oci spec \
  | jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
  > /etc/containerd/cri-base.json
COPY manifests/ /kind/manifests/
COPY version /kind/version
# --no-unpack keeps this within what an unprivileged build step may do; nodes unpack when they start.
RUN --mount=type=bind,source=images.tar,target=/images.tar set -e; \
    containerd > /tmp/containerd.log 2>&1 & \
    for attempt in $(seq 50); do [ -S /run/containerd/containerd.sock ] && ctr version >/dev/null 2>&1 && break; sleep 0.2; done; \
    ctr --namespace=k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms \
      --no-unpack --digests /images.tar || { cat /tmp/containerd.log; exit 1; }; \
    kill %1 2>/dev/null || kill $!; wait; rm -rf /tmp/containerd.log /run/containerd
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
