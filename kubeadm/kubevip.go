package kubeadm

import (
	"context"
	_ "embed" // the manifest below
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/kubevip"
	"github.com/cps-gpu/homelab/remote"
)

// VIP says that the endpoint of a [Cluster] is an address that belongs to none of its machines: kube-vip, a static pod
// on each server, gives it to one of those that run.
type VIP struct {
	Interface string // that carries the address; "": the one of the default route
}

// kubeVIPManifest asks the API server of its own machine (kubernetes_addr): the address does not exist before one of
// the pods has it, and from v1.2.2 on kube-vip does not go round it by itself. The login is mounted as a file: without a
// type, the runtime would make a folder where there is none yet.
//
//go:embed kubevip.yaml
var kubeVIPManifest string

// kubeVIPFile is where the manifest is before kubelet may read it.
const kubeVIPFile = folder + "/kube-vip.yaml"

// kubeVIP is the static pod of a server; nil: the cluster has no virtual address.
func (c Cluster) kubeVIP(n Node) ([]byte, error) {
	if c.VIP == nil {
		return nil, nil
	}
	if !n.Address.IsValid() {
		return nil, errors.New("a server of a cluster with a virtual address needs an address of its own")
	}
	vip := c.Endpoint.Addr()
	vars := map[string]string{
		"$SERVER": fmt.Sprintf("%s:%d", n.Address, c.Endpoint.Port()), "$NODE": n.Name, "$SUBNET": strconv.Itoa(vip.BitLen()),
		"$ADDRESS": vip.String(), "$IMAGE": kubevip.Image + ":" + kubevip.Version, "$INTERFACE": c.VIP.Interface,
	}
	var pairs []string
	for name, value := range vars {
		text, err := yaml.Marshal(value) // quoted if YAML would read it as another type
		if err != nil {
			return nil, fmt.Errorf("kube-vip: %w", err)
		}
		written := strings.TrimSuffix(string(text), "\n")
		if name == "$INTERFACE" && value != "" {
			written = "    - name: vip_interface\n      value: " + written + "\n"
		} else if name == "$INTERFACE" {
			written = ""
		}
		pairs = append(pairs, name, written)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(kubeVIPManifest)), nil
}

//go:embed place.sh
var placeScript string

// updateKubeVIP gives a server that runs another static pod.
func updateKubeVIP(ctx context.Context, r remote.Runner, manifest []byte) error {
	converge.Progressf(ctx, "another kube-vip")
	if err := remote.WriteFile(ctx, r, kubeVIPFile, manifest, 0o644); err != nil {
		return err
	}
	return remote.Run(ctx, r, "sh", "-c", placeScript, "place.sh")
}
