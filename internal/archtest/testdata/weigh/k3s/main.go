// Command k3s is what a program that sets K3s up has of ours: TestWeight builds it.
package main

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

func main() {
	var r remote.Runner
	ctx := context.Background()
	fmt.Println(k3s.Install(ctx, r, k3s.Release{Version: k3s.DefaultVersion}))
	fmt.Println(k3s.StartServer(ctx, r, k3s.Server{Version: k3s.DefaultVersion}))
	fmt.Println(k3s.JoinAgent(ctx, r, k3s.Join{}))
	fmt.Println(k3s.Wait(ctx, r, k3s.RoleAgent))
	fmt.Println(k3s.Kubeconfig(ctx, r, "", ""))
	fmt.Println(k3s.Observe(ctx, r))
}
