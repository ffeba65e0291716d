package jupyterhub

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// storage renders the volumes of every notebook.
func (h Hub) storage() map[string]any {
	v := map[string]any{}
	if h.Home.Claim != "" {
		v["type"] = "static"
		static := map[string]any{"pvcName": h.Home.Claim}
		if h.Home.SubPath != "" {
			static["subPath"] = h.Home.SubPath
		}
		v["static"] = static
	} else {
		v["capacity"] = Bytes(cmp.Or(h.Home.Size, 20*GiB)).String()
		dynamic := map[string]any{}
		if h.Home.Class != "" {
			dynamic["storageClass"] = h.Home.Class
		}
		if h.Home.ClaimTemplate != "" {
			dynamic["pvcNameTemplate"] = h.Home.ClaimTemplate
		}
		if h.Home.SubPath != "" {
			dynamic["subPath"] = h.Home.SubPath
		}
		if len(dynamic) > 0 {
			v["dynamic"] = dynamic
		}
	}
	if h.Home.Path != "" {
		v["homeMountPath"] = h.Home.Path
	}
	volumes, mounts := map[string]any{}, map[string]any{}
	for _, s := range h.Shared {
		if len(s.Groups) == 0 {
			putShare(s, h.Exports[s.Name], volumes, mounts)
		}
	}
	if len(h.bundle()) > 0 {
		maps.Copy(volumes, caVolumes())
		maps.Copy(mounts, caMounts())
	}
	if h.SSH {
		putSSH(volumes, mounts)
	}
	if len(volumes) > 0 { // dictionaries, so that profiles and groups can add to them
		v["extraVolumes"], v["extraVolumeMounts"] = volumes, mounts
	}
	return v
}

// putShare adds the share's volume and mount, by its name.
func putShare(s spec.HubShare, export NFSExport, volumes, mounts map[string]any) {
	name := claimOf(s)
	claim := map[string]any{"claimName": name}
	mount := map[string]any{"name": name, "mountPath": s.Path}
	if s.ReadOnly.IsOn() || export.ReadOnly {
		claim["readOnly"], mount["readOnly"] = true, true
	} else if len(s.Writers) > 0 { // overrides true of all others
		claim["readOnly"], mount["readOnly"] = false, false
	}
	volumes[name] = map[string]any{"name": name, "persistentVolumeClaim": claim}
	mounts[name] = mount
}

func claimOf(s spec.HubShare) string { return "share-" + s.Name }

// scratch says whether the profile's servers get a scratch volume: if a node on which they may
// run has the class. If the hub's nodes are not known, all profiles get it.
func (h Hub) scratch(p spec.HubProfile) bool {
	if h.Scratch == nil {
		return false
	}
	if len(h.ScratchNodes) == 0 || len(h.Pools) == 0 {
		return true
	}
	for _, in := range h.Pools {
		if exclusionReason(p, in, h.Pools) == "" && slices.ContainsFunc(in.Nodes, func(n Node) bool { return slices.Contains(h.ScratchNodes, n.Name) }) {
			return true
		}
	}
	return false
}

// putScratch adds a generic ephemeral volume: Kubernetes creates and removes its claim with the pod.
func putScratch(s spec.HubScratch, volumes, mounts map[string]any) {
	spec := map[string]any{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]any{"storage": Bytes(s.Size).String()}},
	}
	if s.Class != "" {
		spec["storageClassName"] = s.Class
	}
	volumes["scratch"] = map[string]any{"name": "scratch", "ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"spec": spec}}}
	mounts["scratch"] = map[string]any{"name": "scratch", "mountPath": cmp.Or(s.Path, "/scratch")}
}

// groupOverrides mount shares for members of groups (Spawner.group_overrides, since JupyterHub
// 5.2): dictionaries are merged with the common ones, in the order of the overrides' names. They apply
// when a server starts, before the profile's.
func (h Hub) groupOverrides() map[string]any {
	all := map[string]any{}
	put := func(name string, groups []string, s spec.HubShare, folder string) {
		volumes, mounts := map[string]any{}, map[string]any{}
		putShare(s, h.Exports[s.Name], volumes, mounts)
		if folder != "" {
			mount := mounts[claimOf(s)].(map[string]any)
			mount["mountPath"], mount["subPath"] = s.Path+"/"+folder, folder
			mounts = map[string]any{name: mount}
		}
		all[name] = map[string]any{"groups": anys(groups), "spawner_override": map[string]any{"volumes": volumes, "volume_mounts": mounts}}
	}
	for _, s := range h.Shared {
		name := claimOf(s)
		if s.PerGroup {
			for _, g := range s.Groups {
				put(name+"/"+g, []string{g}, s, g)
			}
		} else if len(s.Groups) > 0 {
			put(name, s.Groups, s, "")
		}
		if len(s.Writers) > 0 {
			writable := s
			writable.ReadOnly = spec.Off
			put(name+"/writers", s.Writers, writable, "")
		}
	}
	return all
}

// bundle is every authority of ours, in PEM.
func (h Hub) bundle() []byte {
	var all []byte
	for _, pem := range [][]byte{h.CA, h.AuthCA} {
		if pem = bytes.TrimSpace(pem); len(pem) > 0 && !bytes.Contains(all, pem) {
			all = append(append(all, pem...), '\n')
		}
	}
	return all
}

// caConfigMap has the bundle, and the script that joins it with the image's own.
const caConfigMap = "homelab-ca"

func caVolumes() map[string]any {
	return map[string]any{
		"homelab-ca":     map[string]any{"name": "homelab-ca", "configMap": map[string]any{"name": caConfigMap}},
		"homelab-ca-run": map[string]any{"name": "homelab-ca-run", "emptyDir": map[string]any{}},
	}
}

func caMounts() map[string]any {
	return map[string]any{
		"homelab-ca":     map[string]any{"name": "homelab-ca", "mountPath": "/etc/homelab/ca", "readOnly": true},
		"homelab-ca-run": map[string]any{"name": "homelab-ca-run", "mountPath": "/run/homelab-ca"},
	}
}

// caEnv tells OpenSSL, Python's requests, curl, pip, Git and Node where authorities
// are; Node adds to its own, the others read this file alone.
func caEnv() map[string]any {
	return map[string]any{
		"SSL_CERT_FILE":       bundlePath,
		"REQUESTS_CA_BUNDLE":  bundlePath,
		"CURL_CA_BUNDLE":      bundlePath,
		"PIP_CERT":            bundlePath,
		"GIT_SSL_CAINFO":      bundlePath,
		"NODE_EXTRA_CA_CERTS": "/etc/homelab/ca/ca.crt",
	}
}

// caHook joins the image's authorities with ours in the container itself, because each profile
// has its own image.
func caHook() map[string]any {
	return map[string]any{"postStart": map[string]any{"exec": map[string]any{"command": anys([]string{"sh", "/etc/homelab/ca/bundle.sh"})}}}
}

// mapValues yields the values of m in the order of its keys.
func mapValues(m map[string]any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[k]) {
				return
			}
		}
	}
}
