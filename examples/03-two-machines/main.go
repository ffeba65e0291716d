// Command 03-two-machines makes a K3s cluster of two machines, over SSH.
//
//	go run . ubuntu@10.0.0.11 ubuntu@10.0.0.21 https://10.0.0.11:6443
//
// Both must be in known_hosts. A second run changes what differs. It writes kubeconfig.
package main

import (
	"context"
	"log"
	"os"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: two-machines USER@SERVER USER@AGENT https://SERVER:6443")
	} else if err := form(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func form(ctx context.Context, server, agent, url string) error {
	var root [2]remote.Runner
	for i, login := range []string{server, agent} {
		machine, err := ssh.Login(ctx, login)
		if err != nil {
			return err
		}
		defer func() { _ = machine.Close() }()
		root[i] = remote.Sudo(machine)
		if _, err := k3s.Install(ctx, root[i], k3s.Release{Version: k3s.DefaultVersion}); err != nil {
			return err
		}
	}
	if err := k3s.StartServer(ctx, root[0], k3s.Server{Version: k3s.DefaultVersion}); err != nil {
		return err
	}
	if _, err := k3s.Wait(ctx, root[0], k3s.RoleServer); err != nil {
		return err
	}
	token, err := k3s.AgentToken(ctx, root[0])
	if err != nil {
		return err
	}
	if err := k3s.JoinAgent(ctx, root[1], k3s.Join{Token: token, Agent: k3s.Agent{Version: k3s.DefaultVersion, URL: url}}); err != nil {
		return err
	}
	if _, err := k3s.Wait(ctx, root[1], k3s.RoleAgent); err != nil {
		return err
	}
	kubeconfig, err := k3s.Kubeconfig(ctx, root[0], url, "two-machines")
	if err == nil {
		err = os.WriteFile("kubeconfig", []byte(kubeconfig.Reveal()), 0o600)
	}
	return err
}
