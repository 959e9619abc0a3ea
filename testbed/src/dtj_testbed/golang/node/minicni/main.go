// minicni gives a node's pods their network: a CNI configuration for this node's pod range, and a route to the
// pod range of every other node. It stands in for kindnetd, which no package registry carries. It does not
// enforce NetworkPolicy.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	configurationFile = "/etc/cni/net.d/10-minicni.conflist"
	configuration     = `{
  "cniVersion": "0.4.0",
  "name": "minicni",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "mtu": 1500,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": %q}]]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
	interval      = 3 * time.Second
	retryInterval = 500 * time.Millisecond
)

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	// The service address works only once kube-proxy does; the control plane's own address works at once.
	if endpoint := os.Getenv("CONTROL_PLANE_ENDPOINT"); endpoint != "" {
		config.Host = endpoint
	}
	client := kubernetes.NewForConfigOrDie(config)
	for {
		if err := synchronize(client, os.Getenv("NODE_NAME")); err != nil {
			log.Print(err)
			time.Sleep(retryInterval)
			continue
		}
		time.Sleep(interval)
	}
}

// synchronize brings this node's configuration and routes in line with the nodes there are.
func synchronize(client kubernetes.Interface, self string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	configured := false
	for i := range nodes.Items {
		node := &nodes.Items[i]
		switch {
		case node.Spec.PodCIDR == "":
		case node.Name == self:
			if err := writeConfiguration(node.Spec.PodCIDR); err != nil {
				return err
			}
			configured = true
		default:
			if err := routeTo(node); err != nil {
				return fmt.Errorf("route to %s: %w", node.Name, err)
			}
		}
	}
	if !configured {
		return fmt.Errorf("node %s has no pod range yet", self)
	}
	return nil
}

func writeConfiguration(podRange string) error {
	wanted := fmt.Sprintf(configuration, podRange)
	if present, _ := os.ReadFile(configurationFile); string(present) == wanted {
		return nil
	}
	temporary := configurationFile + ".tmp"
	if err := os.WriteFile(temporary, []byte(wanted), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, configurationFile)
}

func routeTo(node *corev1.Node) error {
	_, destination, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return err
	}
	for _, address := range node.Status.Addresses {
		gateway := net.ParseIP(address.Address)
		if address.Type != corev1.NodeInternalIP || gateway.To4() == nil {
			continue
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: destination, Gw: gateway}); err != nil {
			return err
		}
	}
	return nil
}
