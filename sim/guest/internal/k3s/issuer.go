package k3s

import (
	"context"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// setIssuer tells the cluster's API server whose tokens it takes. In life each server has an API server of its own; here all
// have one, with the arguments of the server that has started last.
func (n *node) setIssuer(ctx context.Context) error {
	api, ok := n.cluster.plane.(plane.IssuerSetter)
	if !ok {
		return nil
	}
	var args []plane.Argument
	for _, text := range n.cfg["kube-apiserver-arg"] {
		name, value, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
		if !strings.HasPrefix(name, "oidc-") {
			continue
		}
		a := plane.Argument{Name: name, Value: value}
		if strings.HasSuffix(name, "-file") {
			file, err := n.sys.Root().ReadFile(value)
			if err != nil {
				return err
			}
			a.File = file
		}
		args = append(args, a)
	}
	return api.SetIssuer(ctx, args)
}
