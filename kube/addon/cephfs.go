package addon

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const cephNamespace = "ceph-csi"

// CephFS provides a class of volumes that are folders of a Ceph file system, with
// quotas, and that many pods can write at once.
type CephFS struct{ *spec.CephFS }

func (c CephFS) Info() Info {
	i := Info{
		Name: "cephfs", Section: "storage.cephfs", On: c.CephFS != nil,
		Shared:    true,
		Namespace: cephNamespace,
		Chart: chart.Pin{
			Chart: "ceph-csi-cephfs", Repo: "https://ceph.github.io/csi-charts",
			Version: "3.16.3", Compared: "2026-09-01",
			Source: "pinned: ceph-csi's issues and documentation, 2026-09-01; read: 3.12.2 of 2024-09-06, two years older; its Chart.yaml names no Kubernetes version",
		},
		Host: Host{Packages: []string{"ceph-common"}, Modules: []string{"ceph"}}, // the kernel's client
	}
	if i.On {
		i.Stays = "volumes in the Ceph file system " + c.FSName
	}
	return i
}

func (c CephFS) Make(s *Site) (Recipe, error) {
	key, err := s.Secret("storage.cephfs.key", c.Key)
	if err := errors.Join(err, c.check()); err != nil {
		return Recipe{}, err
	}
	const name = "csi-cephfs-secret"
	v := values{
		"csiConfig":   []any{values{"clusterID": c.ClusterID, "monitors": c.Monitors}},
		"provisioner": values{"replicaCount": s.replicas(2)},
		// Every node mounts, whatever its taints.
		"nodeplugin": values{"tolerations": everywhere()},
	}
	s.tolerate(v, []string{"provisioner"})
	r := s.release(c.Info(), v)
	parameters := map[string]string{"clusterID": c.ClusterID, "fsName": c.FSName}
	if c.Pool != "" {
		parameters["pool"] = c.Pool
	}
	for _, use := range []string{"provisioner", "controller-expand", "node-stage"} {
		parameters["csi.storage.k8s.io/"+use+"-secret-name"] = name
		parameters["csi.storage.k8s.io/"+use+"-secret-namespace"] = cephNamespace
	}
	sc := class{part: "cephfs", name: c.Class, provisioner: "cephfs.csi.ceph.com", mode: corev1.ReadWriteMany,
		retain: true, expand: true, parameters: parameters}
	user := secret.New(c.User)
	return sc.piece(s, chart.Part{
		Release: r, NamespaceLabels: privilegedLabels(), Keep: true,
		// The driver reads admin* for volumes that it creates, user* for existing ones.
		Secrets: []chart.Secret{{Namespace: cephNamespace, Name: name, Data: map[string]secret.Value{
			"adminID": user, "adminKey": key, "userID": user, "userKey": key}}},
	}), nil
}

func (c CephFS) check() error {
	errs := []error{requireSet("cephfs", "cluster id", c.ClusterID, "file system name", c.FSName, "user", c.User)}
	if c.Key.IsZero() {
		errs = append(errs, errors.New("cephfs: the user's key is not set"))
	}
	if strings.HasPrefix(c.User, "client.") {
		errs = append(errs, fmt.Errorf("cephfs: user %q: leave \"client.\" out", c.User))
	}
	if len(c.Monitors) == 0 {
		errs = append(errs, errors.New("cephfs: no monitors: name the addresses that `ceph mon dump` shows"))
	}
	for _, m := range c.Monitors {
		_, addrErr := netip.ParseAddr(m)
		_, portErr := netip.ParseAddrPort(m)
		if addrErr != nil && portErr != nil && strings.ContainsAny(m, "/ ,") {
			errs = append(errs, fmt.Errorf("cephfs: monitor %q: want an address, or address:port", m))
		}
	}
	return errors.Join(errs...)
}
