package kubeadm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
)

// The runner would be an SSH connection; here it shows what is run on the machine, and plays one that fails a check of
// kubeadm's.
func ExampleCreate() {
	installed := ""
	machine := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		switch c.Args[min(3, len(c.Args)-1)] {
		case "observe.sh":
			fmt.Fprintf(c.Stdout, "\n@@ version\n%s\n\n@@ end\n", installed)
		case "start.sh":
			fmt.Println("start.sh", c.Args[4])
			return &remote.ExitError{Code: 2, Stderr: "[preflight] Some fatal errors occurred:\n\t[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2\n"}
		}
		return nil
	})
	want := kubeadm.Cluster{
		Name: "home", Version: "v1.36.5", Endpoint: netip.MustParseAddrPort("10.0.0.11:6443"),
		Pods: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")},
	}
	err := kubeadm.Create(context.Background(), machine, want, kubeadm.Node{Name: "cp1"})
	fmt.Println(errors.Is(err, kubeadm.ErrNotInstalled))

	installed = "Kubernetes v1.36.5"
	err = kubeadm.Create(context.Background(), machine, want, kubeadm.Node{Name: "cp1"})
	var checks *kubeadm.ChecksError
	if errors.As(err, &checks) {
		fmt.Println(checks.Verb, strings.Join(checks.Failed, "; "))
	}
	// Output:
	// true
	// start.sh init
	// init NumCPU: the number of available CPUs 1 is less than the required 2
}
