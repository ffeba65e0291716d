// Command 03-join-agent makes a machine that one can log in to a worker of a K3s
// cluster that is there already.
//
//	export K3S_TOKEN=…   # on a server: sudo cat /var/lib/rancher/k3s/server/agent-token
//	go run . -addr 10.0.0.21:22 -user ubuntu -key ~/.ssh/id_ed25519 -server https://10.0.0.100:6443
//
// The machine's host key must be in the known_hosts file: one that is seen for the first
// time is refused. The token reaches it on stdin. Run again, it changes what differs.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

func main() {
	home, _ := os.UserHomeDir()
	machine, agent, wait := ssh.Config{}, k3s.Agent{}, 10*time.Minute
	flag.StringVar(&machine.Addr, "addr", "", "host:port of the machine's SSH server")
	flag.StringVar(&machine.User, "user", "ubuntu", "who to log in as; must be allowed sudo without a password")
	key := flag.String("key", filepath.Join(home, ".ssh", "id_ed25519"), "private key to log in with")
	known := flag.String("known-hosts", filepath.Join(home, ".ssh", "known_hosts"), "file with the machine's host key")
	flag.StringVar(&agent.URL, "server", "", "the cluster, https://host:6443; its token is read from K3S_TOKEN")
	flag.StringVar(&agent.Version, "version", k3s.DefaultVersion, "exact release of K3s, the cluster's own")
	flag.StringVar(&agent.Name, "name", "", "name of the node; empty: the hostname")
	flag.DurationVar(&wait, "timeout", wait, "how long all of it may take")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), wait)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	ctx = progress.With(ctx, func(u progress.Update) { fmt.Fprintln(os.Stderr, u) })
	machine.HostKeys = ssh.NewKnownHosts(*known).HostKeys
	err := join(ctx, machine, *key, agent)
	stop()
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "join-agent:", err)
		os.Exit(1)
	}
}

func join(ctx context.Context, machine ssh.Config, key string, agent k3s.Agent) error {
	token, missing := secret.FromEnv("K3S_TOKEN")
	signer, err := ssh.LoadSigner(key)
	if err := cmp.Or(missing, err); err != nil {
		return err
	}
	machine.Signers = []ssh.Signer{signer}
	client, err := ssh.Dial(ctx, machine)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	root := remote.Sudo(client)
	if _, err := k3s.Install(ctx, root, k3s.Release{Version: agent.Version}); err != nil {
		return err
	}
	if err := k3s.JoinAgent(ctx, root, k3s.Join{Token: token, Agent: agent}); err != nil {
		return err
	}
	state, err := k3s.Wait(ctx, root, k3s.RoleAgent)
	if err != nil {
		return err
	}
	fmt.Printf("%s runs K3s %s as an agent of %s\n", machine.Addr, state.Version, agent.URL)
	return nil
}
