package kubeadm

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/etcdfile"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// etcdImage is that of kubeadm's etcd.
const etcdImage = "registry.k8s.io/etcd:3.6.6-0"

// listImages is kubeadm config images list.
func listImages(p *machine.Proc, version string) {
	for _, name := range components() {
		if name != "etcd" {
			p.Printf("registry.k8s.io/%s:%s\n", name, version)
		}
	}
	p.Printf("%s\n", etcdImage)
}

// restoredPart is between the member and the snapshot in etcd's data as etcdutl makes it.
const restoredPart = "restored\n"

// runCtr is ctr run, of etcd's image with etcdutl version or etcdutl snapshot restore.
func runCtr(ctx context.Context, p *machine.Proc) int {
	if p.User.UID != 0 {
		return p.Fail("ctr: failed to dial \"/run/containerd/containerd.sock\": permission denied")
	}
	opts, args := getopt.Parse(p.Args[1:], "namespace", "mount", "data-dir", "name", "initial-cluster", "initial-advertise-peer-urls", "bump-revision")
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.EtcdutlMissing }) {
		return p.Fail(`ctr: failed to create shim task: OCI runtime create failed: exec: "etcdutl": executable file not found in $PATH`)
	}
	if len(args) == 5 && args[0] == "run" && args[1] == etcdImage && slices.Equal(args[3:], []string{"etcdutl", "version"}) {
		p.Printf("etcdutl version: 3.6.6\nAPI version: 3.6\n")
		return 0
	}
	if len(args) != 7 || args[0] != "run" || args[1] != etcdImage || !slices.Equal(args[3:6], []string{"etcdutl", "snapshot", "restore"}) {
		return p.Fail("ctr %s is not simulated", strings.Join(args, " "))
	}
	if getopt.Last(opts, "namespace") != "k8s.io" {
		return p.Fail("ctr: image %q: not found", args[1])
	}
	dir, name, peer := getopt.Last(opts, "data-dir"), getopt.Last(opts, "name"), getopt.Last(opts, "initial-advertise-peer-urls")
	mounted := "src=" + path.Dir(dir) + ",dst=" + path.Dir(dir) + ","
	if !strings.Contains(getopt.Last(opts, "mount")+",", mounted) || path.Dir(args[6]) != path.Dir(dir) {
		return p.Fail("Error: open %s: no such file or directory", args[6])
	}
	if getopt.Has(opts, "bump-revision") != getopt.Has(opts, "mark-compacted") {
		return p.Fail("Error: --mark-compacted required if --revision-bump > 0")
	}
	if getopt.Last(opts, "initial-cluster") != name+"="+peer {
		return p.Fail("Error: couldn't find local name %q in the initial cluster configuration", name)
	}
	if entries, err := p.FS.ReadDir(dir); err == nil && len(entries) > 0 {
		return p.Fail("Error: data-dir %q not empty or could not be read", dir)
	}
	data, err := p.FS.ReadFile(args[6])
	if err != nil {
		return p.Fail("Error: %v", err)
	}
	if _, err := etcdfile.Decode(data); err != nil {
		return p.Fail("Error: %v", err)
	}
	if p.Wait(ctx, 3*time.Second) != nil {
		return 1
	}
	p.Sys.Root().Save(dir+"/member/snap/db", "name: "+name+"\npeer: "+peer+"\n"+restoredPart+string(data), 0o600)
	p.Sys.RecordChange("etcdutl snapshot restore")
	return 0
}

// revive is the cluster of etcd's data on a disk that a snapshot was made to, and nil if there are none.
func (d *documents) revive(ctx context.Context, s *machine.System, cfg plane.Config, own netip.Addr) (*cluster, error) {
	v := s.Root()
	text, err := v.ReadFile(etcdMember)
	head, data, is := strings.Cut(string(text), restoredPart)
	if err != nil || !is {
		return nil, nil
	}
	name := d.init.Registration.Name
	if head != fmt.Sprintf("name: %s\npeer: https://%s\n", name, netip.AddrPortFrom(own, 2380)) {
		return nil, fmt.Errorf("error execution phase wait-control-plane: etcd: the member of its data is not %s at %s", name, own)
	}
	keys, err := etcdfile.Decode([]byte(data))
	if err != nil {
		return nil, err
	}
	cfg.Saved = &plane.SavedState{Objects: keys, Snapshot: []byte(data)}
	cert, _ := v.ReadFile(etc + "/pki/ca.crt")
	if key, err := v.ReadFile(etc + "/pki/ca.key"); err == nil { // kubeadm makes others, if there are none
		cfg.Saved.Authority = slices.Concat(cert, key)
	}
	return d.form(ctx, s, cfg, own)
}

// form makes a cluster of this server.
func (d *documents) form(ctx context.Context, s *machine.System, cfg plane.Config, own netip.Addr) (*cluster, error) {
	formed, err := s.Config.Kubernetes.Form(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := &cluster{id: machine.HexID(8), plane: formed, ca: k3s.Authority(formed.Kubeconfig("https://" + d.cluster.Endpoint)), version: d.cluster.Version, tokens: map[string]token{},
		net: s.Config.Network, members: map[string]*member{}}
	if c.key, err = keyOf(ctx, formed); err != nil {
		return nil, err
	}
	id := machine.HexID(8)
	c.members[id] = &member{name: d.init.Registration.Name, address: own}
	network.Adopt(s.Config.Network, c.id, c, own)
	s.Root().Save(etcdMember, "cluster: "+c.id+"\nmember: "+id+"\n", 0o600)
	return c, nil
}

// keyOf is the private key of a control plane's authority, PEM.
func keyOf(ctx context.Context, p plane.Plane) ([]byte, error) {
	saver, ok := p.(plane.Saver)
	if !ok {
		return []byte("this control plane is not saved\n"), nil
	}
	saved, err := saver.Save(ctx)
	if err != nil {
		return nil, err
	}
	_, key, _ := strings.Cut(string(saved.Authority), "-----END CERTIFICATE-----\n")
	return []byte(key), nil
}

// deleteNode is kubectl delete node.
func (n *node) deleteNode(ctx context.Context, p *machine.Proc, name string) int {
	code, body, err := k3s.Delete(ctx, n.cluster.plane, "/api/v1/nodes/"+name)
	if err != nil || code >= http.StatusMultipleChoices && code != http.StatusNotFound {
		fmt.Fprintf(p.Stderr, "Error from server: %s %v\n", body, err)
		return 1
	}
	if code != http.StatusNotFound {
		p.Sys.RecordChange("kubectl delete node " + name)
		p.Printf("node %q deleted\n", name)
	}
	return 0
}
