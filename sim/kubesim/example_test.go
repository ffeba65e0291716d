package kubesim_test

import (
	"context"
	"fmt"
	"net"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// A Kubernetes API for a test, without a socket: any client takes its kubeconfig and its Dial.
func Example() {
	ctx := context.Background()
	cluster, err := kubesim.New(ctx, guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if err := cluster.Join(ctx, guest.Node{Name: "wk1", Role: "agent", Version: "v1.36.5+k3s1", Labels: map[string]string{"pool": "gpu"}}); err != nil {
		fmt.Println(err)
		return
	}
	client, err := kube.New(kube.Config{
		Kubeconfig: cluster.Kubeconfig("https://10.0.0.10:6443"),
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return cluster.Dial(ctx) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes, err := client.Nodes(ctx)
	fmt.Println(nodes[0].Name, nodes[0].Labels["pool"], err)
	// Output: wk1 gpu <nil>
}
