package kubeadm

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/etcdfile"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// runCrictl is crictl ps, stop and exec, of the control plane's containers.
func runCrictl(ctx context.Context, p *machine.Proc) int {
	if p.User.UID != 0 {
		return p.Fail("validate service connection: permission denied")
	}
	n := network.StateOf[servers](p.Sys.Config.Network).get(p.Sys.Answers())
	containers := map[string]string{} // names by their ids
	if n != nil {
		for _, name := range append(components(), "kube-vip") {
			if _, err := p.FS.Stat(manifests + "/" + name + ".yaml"); err != nil {
				continue
			}
			containers[fmt.Sprintf("%x", sha256.Sum256([]byte(n.cluster.id+name)))] = name
		}
	}
	opts, args := getopt.Parse(p.Args[1:], "label", "timeout", "runtime-endpoint")
	if socket := getopt.Last(opts, "runtime-endpoint"); !listens(p.Sys, socket) {
		return p.Fail("validate service connection: validate CRI v1 runtime API for endpoint %q: connection refused", socket)
	}
	switch {
	case len(args) == 2 && args[0] == "inspecti" && getopt.Has(opts, "quiet", "q"):
		return 0 // kubeadm has pulled the images before it does anything
	case len(args) == 1 && args[0] == "ps" && getopt.Has(opts, "quiet", "q"):
		for id, name := range containers {
			if getopt.Last(opts, "label") == "io.kubernetes.container.name="+name {
				p.Printf("%s\n", id)
			}
		}
		return 0
	case len(args) > 1 && containers[args[1]] == "":
		return p.Fail("container %q not found: not found", args[1])
	case len(args) == 2 && args[0] == "stop":
		p.Sys.RecordChange("crictl stop " + containers[args[1]])
		if containers[args[1]] == "kube-vip" {
			n.cluster.releaseVIP(n, 0)
			return 0
		}
		defer n.stopAPI()()
		if p.Wait(ctx, 2*time.Second) != nil {
			return 1
		}
		p.Printf("%s\n", args[1])
		return 0
	case len(args) > 3 && args[0] == "exec" && containers[args[1]] == "etcd" && slices.Equal(args[2:len(args)-1], []string{"etcdctl", "snapshot", "save"}):
		return n.saveEtcd(ctx, p, opts, args[len(args)-1])
	case len(args) > 3 && args[0] == "exec" && containers[args[1]] == "etcd" && args[2] == "etcdctl":
		return n.etcdctl(ctx, p, args[3:])
	}
	return p.Fail("crictl %s is not simulated", strings.Join(args, " "))
}

// saveEtcd is etcdctl snapshot save in etcd's container, which has etcd's folder and its certificates.
func (n *node) saveEtcd(ctx context.Context, p *machine.Proc, opts map[string][]string, file string) int {
	for _, flag := range []string{"cacert", "cert"} {
		if _, err := p.FS.Stat(getopt.Last(opts, flag)); err != nil {
			return p.Fail("open %s: no such file or directory", getopt.Last(opts, flag))
		}
	}
	if !strings.HasPrefix(file, "/var/lib/etcd/") {
		return p.Fail("could not open %s.part (open %[1]s.part: no such file or directory)", file)
	}
	saver, ok := n.cluster.plane.(plane.Saver)
	if !ok {
		return p.Fail("this control plane is not saved")
	}
	saved, err := saver.Save(ctx)
	if err != nil {
		return p.Fail("%v", err)
	}
	data, err := etcdfile.Encode(saved.Snapshot, saved.Objects, "")
	if err != nil {
		return p.Fail("%v", err)
	}
	p.Sys.Root().Save(file, string(data), 0o600)
	p.Sys.RecordChange("etcdctl snapshot save")
	p.Printf("Snapshot saved at %s\n", file)
	return 0
}
