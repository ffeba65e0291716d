package kubesim_test

import (
	"context"
	"fmt"
	"net"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

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
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig("https://10.0.0.10:6443"))
	if err != nil {
		fmt.Println(err)
		return
	}
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return cluster.Dial(ctx) }
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nodes.Items[0].Name, nodes.Items[0].Labels["pool"])
	// Output: wk1 gpu
}
