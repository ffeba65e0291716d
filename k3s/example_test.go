package k3s_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

func ExampleAgent_Diff() {
	want := k3s.Agent{
		Version: "v1.36.5+k3s1",
		URL:     "https://10.0.0.10:6443",
		Node:    k3s.Node{Name: "wk1", Labels: map[string]string{"pool": "gpu"}},
	}
	fmt.Println(want.Diff(k3s.State{}))
	fmt.Println(k3s.Agent{Version: "latest", URL: want.URL}.Check())
	// Output:
	// k3s v1.36.5+k3s1, agent of https://10.0.0.10:6443
	// k3s version "latest": write an exact release such as v1.36.5+k3s1
}

// A machine that has the binary already joins a cluster. The runner would be an
// SSH connection; here it shows what is run on the machine.
func ExampleJoinAgent() {
	machine := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		fmt.Println(strings.Join(c.Args[3:min(5, len(c.Args))], " "))
		if c.Args[3] == "observe.sh" {
			fmt.Fprint(c.Stdout, "\n@@ version\nk3s version v1.36.5+k3s1 (0123abcd)\n\n@@ end\n")
		}
		return nil
	})
	err := k3s.JoinAgent(context.Background(), machine, k3s.Join{
		Server: "https://10.0.0.10:6443",
		Token:  secret.New("K10…::abcdef.…"), // from k3s.CreateToken on a server
		Agent:  k3s.Agent{Version: "v1.36.5+k3s1", Node: k3s.Node{Name: "wk1"}},
	})
	fmt.Println(err)
	// Output:
	// observe.sh
	// write.sh /etc/rancher/k3s/token
	// write.sh /etc/rancher/k3s/config.yaml
	// write.sh /etc/systemd/system/k3s-agent.service
	// start.sh k3s-agent
	// <nil>
}

func ExampleKubeVIP() {
	manifest, err := k3s.KubeVIP(k3s.VIP{Address: netip.MustParseAddr("10.0.0.10")})
	if err != nil {
		panic(err)
	}
	for line := range strings.SplitSeq(string(manifest), "\n") {
		if strings.HasPrefix(line, "kind: ") || strings.Contains(line, "10.0.0.10") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	// Output:
	// kind: ServiceAccount
	// kind: ClusterRole
	// kind: ClusterRoleBinding
	// kind: DaemonSet
	// value: 10.0.0.10
}
