package kube_test

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// A ConfigMap is compared, applied, and applied again.
func Example() {
	ctx := context.Background()
	sim, err := kubesim.New(ctx, guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}}, 1)
	if err != nil {
		panic(err)
	}
	defer func() { _ = sim.Close() }()

	client, err := kube.New(kube.Config{
		Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
		// With a real cluster this is left out, or dials through an SSH jump host.
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()

	motd := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "motd", Namespace: "default"},
		Data:       map[string]string{"text": "hello"},
	}
	diff, err := client.Diff(ctx, motd)
	fmt.Println(diff, err)
	changes, err := client.Apply(ctx, motd)
	fmt.Println(changes, err)
	changes, err = client.Apply(ctx, motd)
	fmt.Println(changes, err)
	motd.Data["text"] = "goodbye"
	diff, err = client.Diff(ctx, motd)
	fmt.Println(diff, err)
	// Output:
	// configmap/default/motd: new <nil>
	// [configmap default/motd created] <nil>
	// [configmap default/motd unchanged] <nil>
	// configmap/default/motd/data.text: hello → goodbye <nil>
}

func ExampleMarks_Diff() {
	node := kube.Node{
		Labels:      map[string]string{"kubernetes.io/hostname": "wk1", "pool": "gpu", "zone": "a"},
		OwnedLabels: []string{"pool", "zone"},
	}
	marks := kube.Marks{
		Labels: map[string]string{"pool": "gpu"},
		Taints: []kube.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}},
	}
	for _, field := range marks.Diff(node) {
		fmt.Println(field)
	}
	// Output:
	// label/zone: a → (none)
	// taint/nvidia.com/gpu: nvidia.com/gpu=present:NoSchedule
}
