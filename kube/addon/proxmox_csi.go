package addon

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// Names of the driver's (sergelogvinov/proxmox-csi-plugin, v0.19.1: pkg/csi/driver.go).
const (
	ProxmoxCSIName   = "proxmox-csi"
	ProxmoxCSIDriver = "csi.proxmox.sinextra.dev"

	proxmoxCSINamespace = "csi-proxmox"
	proxmoxCSIConfig    = "proxmox-csi-config" // a Secret: config.yaml, and ca.crt if there is one
)

// ProxmoxCSI provides a class of volumes that are disks of a Proxmox storage. They follow their pod to another VM by
// hot-plug: on the same host, or on any host that has the storage, if hosts share it.
type ProxmoxCSI struct{ *spec.ProxmoxCSI }

func (c ProxmoxCSI) Info() Info {
	i := Info{
		Name: ProxmoxCSIName, Section: "storage.proxmox", On: c.ProxmoxCSI != nil, Namespace: proxmoxCSINamespace,
		Chart: chart.Pin{
			Chart: "proxmox-csi-plugin", Repo: "oci://ghcr.io/sergelogvinov/charts",
			Version: "0.5.9", App: "v0.19.1", Compared: "2026-11-29",
			Source: "pinned and read: proxmox-csi-plugin v0.19.1 of 2026-06-25, charts, pkg; its Chart.yaml names no Kubernetes version",
		},
	}
	if i.On {
		i.Stays = "volumes of claims on the Proxmox storage " + c.Storage + " (vm-9999-pvc-…)"
	}
	return i
}

func (c ProxmoxCSI) Make(s *Site) (Recipe, error) {
	token, err := s.Secret("storage.proxmox.secret", c.TokenSecret)
	ca, caErr := File("storage.proxmox.ca", cmp.Or(c.CAFile, s.Proxmox.CAFile))
	if err := errors.Join(err, caErr, c.check(s)); err != nil {
		return Recipe{}, err
	}
	config, err := yaml.Marshal(values{"clusters": []any{values{
		"url": proxmoxURL(s.Proxmox), "region": s.Proxmox.Region, "token_id": c.TokenID, "token_secret": token.Reveal(),
		"insecure": s.Proxmox.Insecure && len(ca) == 0,
	}}})
	if err != nil {
		return Recipe{}, errors.New("proxmox-csi: the driver's configuration cannot be written") // the cause may quote the token
	}
	data := map[string]secret.Value{"config.yaml": secret.New(string(config))}
	v := values{
		"fullnameOverride":     ProxmoxCSIName,
		"existingConfigSecret": proxmoxCSIConfig,
		"replicaCount":         s.replicas(2),
		"node":                 values{"tolerations": everywhere()}, // every VM attaches, whatever its taints
	}
	s.tolerate(v, nil)
	if len(ca) > 0 {
		// The driver knows no other way to trust an authority than that of its system.
		data["ca.crt"] = secret.New(string(ca))
		v["extraVolumes"] = []any{values{"name": "ca", "secret": values{"secretName": proxmoxCSIConfig, "items": []any{values{"key": "ca.crt", "path": "ca.crt"}}}}}
		v["extraVolumeMounts"] = []any{values{"name": "ca", "mountPath": "/etc/ssl/certs/ca-certificates.crt", "subPath": "ca.crt", "readOnly": true}}
	}
	sc := class{part: ProxmoxCSIName, name: c.Class, provisioner: ProxmoxCSIDriver, mode: corev1.ReadWriteOnce, retain: true, expand: true,
		wait:       true,                                                                                        // a volume on a host's own storage is created where its pod runs
		parameters: map[string]string{"storage": c.Storage, "csi.storage.k8s.io/fstype": "ext4", "ssd": "true"}} // with ssd, the guest discards
	return sc.piece(s, chart.Part{
		Release: s.release(c.Info(), v), NamespaceLabels: privilegedLabels(), Keep: true,
		Secrets: []chart.Secret{{Namespace: proxmoxCSINamespace, Name: proxmoxCSIConfig, Data: data}},
	}), nil
}

func (c ProxmoxCSI) check(s *Site) error {
	errs := []error{requireSet(ProxmoxCSIName, "storage", c.Storage, "token", c.TokenID)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(ProxmoxCSIName+": "+format, args...)) }
	user, name, whole := strings.Cut(c.TokenID, "!")
	switch {
	case c.TokenID == "":
	case !whole || name == "" || !strings.Contains(user, "@") || strings.ContainsAny(c.TokenID, "= \t\n"):
		bad("token is not the ID of an API token: write user@realm!name, e.g. homelab@pve!csi; its secret belongs in secret") // it may hold the secret
	case c.TokenID == s.Proxmox.TokenID:
		bad("token is that of proxmox.token, with which pods could change every machine: write another, e.g. %s!csi; host:role prints how to make it", user)
	}
	if c.TokenSecret.IsZero() {
		bad("the token's secret is not set")
	}
	if s.Proxmox.Endpoint == "" {
		bad("the file has no proxmox: volumes are disks of VMs on Proxmox VE")
	}
	if s.Proxmox.Fingerprint != "" && c.CAFile == "" && s.Proxmox.CAFile == "" {
		bad("the driver cannot compare a fingerprint: copy /etc/pve/pve-root-ca.pem of a host, and write ca: with that file")
	}
	for _, n := range s.Nodes {
		switch {
		case !n.OnProxmox():
			bad("node %s is not a VM of this Proxmox VE, so a pod's disk could not follow it there: write another class for this cluster, or remove the node", n.Name)
		case n.VMID == proxmoxCSIOwner:
			bad("node %s has vmid %d, the number of all volumes, which Proxmox can delete together with that VM: write another", n.Name, n.VMID)
		}
	}
	return errors.Join(errs...)
}

// proxmoxCSIOwner is the number in the names of all volumes (DefaultControllerVMID, pkg/config/config.go).
const proxmoxCSIOwner = 9999

// proxmoxURL is the address of the API. The file's endpoint has any spelling, and was checked; the lab's host is the
// first one.
func proxmoxURL(p spec.Proxmox) string {
	endpoint := p.Endpoint
	if endpoint == spec.Lab {
		endpoint = "pve1"
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	return "https://" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "8006")) + "/api2/json"
}
