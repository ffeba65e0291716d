package clusterfile

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
)

// guestSection completes and checks ssh and guest.
type guestSection struct{ *resolver }

func (r guestSection) access() {
	a := &r.spec.Access
	a.User = cmp.Or(a.User, distro.ByName(r.spec.Image.Distribution).User)
	r.privateKey(&a.PrivateKey)
	if !decode.Matches(userName, a.User) || a.User == "root" {
		cure := "write a name in lower-case letters that is not root, e.g. ubuntu"
		if a.User == "root" && !r.IsSet(&r.spec.Proxmox) {
			cure = "write external: root@address of each machine that root logs in to"
		}
		r.Wrong(&a.User, fmt.Sprintf("%q cannot be the admin user", a.User), cure)
	}
	var keys []string
	for i := range a.PublicKeys {
		keys = append(keys, r.publicKeys(&a.PublicKeys[i])...)
	}
	a.PublicKeys = keys
	if a.Jump != "" {
		a.Jump = r.login(&a.Jump, a.User)
	}
	r.IsURL(&a.Proxy, "socks5", "socks5h")
	if len(a.PublicKeys) == 0 && (a.PrivateKey != "" || a.Agent) && r.IsSet(&r.spec.Proxmox) { // without it, the machines exist, and have keys
		r.Wrong(&a.PublicKeys, "ssh names a private key or an agent and no public key, so nobody could log in", "write publicKeys: [~/.ssh/id_ed25519.pub], or remove all of them: homelab then has a key of its own")
	}
}

// privateKey checks the path of a key.
func (r guestSection) privateKey(path *string) {
	if strings.ContainsAny(*path, "\r\n") || strings.Contains(*path, "PRIVATE KEY") {
		r.Wrong(path, "privateKey holds a key itself", "save it to a file with mode 0600 and write the file's path")
		*path = ""
		return
	}
	*path = r.Existing(path, *path, false)
}

// publicKeys returns the keys of one item: itself, or the lines of the file it names.
func (r guestSection) publicKeys(at *string) []string {
	key := strings.TrimSpace(*at)
	if decode.IsAuthorizedKey(key) {
		return []string{key}
	}
	if strings.Contains(key, "PRIVATE KEY") {
		r.Wrong(at, "publicKeys holds a private key", "write the contents of the .pub file beside it, or that file's path")
		return nil
	}
	path := strings.TrimPrefix(key, "file:")
	if strings.ContainsAny(path, " \t\n") || path == "" {
		r.Wrong(at, "this is not a public key", "write a line as in ~/.ssh/id_ed25519.pub, or that file's path")
		return nil
	}
	text, ok := r.Source(at, path)
	if !ok {
		return nil
	}
	var keys []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !decode.IsAuthorizedKey(line) {
			r.Wrong(at, path+" holds a line that is not a public key", "name a .pub file")
			return nil
		}
		keys = append(keys, line)
	}
	return keys
}

func (r guestSection) guest() {
	g := &r.spec.Guest
	for _, at := range []*string{&g.APTMirror, &g.APTProxy, &g.HTTPSProxy} {
		r.IsURL(at, "http", "https")
	}
	for i, p := range g.Packages {
		if !decode.Matches(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`, p) {
			r.Wrong(&g.Packages[i], fmt.Sprintf("%q cannot be a package", p), "write its name, or name=version")
		}
	}
	for i, m := range g.KernelModules {
		if !decode.Matches(`^[A-Za-z0-9_-]+$`, m) {
			r.Wrong(&g.KernelModules[i], fmt.Sprintf("%q cannot be a kernel module", m), "write its name alone, e.g. br_netfilter")
		}
	}
	for k, v := range g.Sysctls {
		if !decode.Matches(`^[A-Za-z0-9_][A-Za-z0-9_./*-]*$`, k) || strings.ContainsAny(v, "\r\n") || v == "" {
			r.Wrong(r.MemberAt(&g.Sysctls, k), fmt.Sprintf("%q cannot be set by sysctl", k), "write name: value, e.g. vm.max_map_count: 262144")
		}
	}
	if !decode.Matches(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`, g.Timezone) {
		r.Wrong(&g.Timezone, fmt.Sprintf("%q is not a time zone", g.Timezone), "write e.g. Europe/Vienna or Etc/UTC")
	}
	for i := range g.Files {
		r.file(&g.Files[i])
	}
}

// ours are files on the nodes that homelab writes.
var ours = []string{"/etc/rancher/k3s/", "/var/lib/rancher/k3s/", "/etc/systemd/system/k3s"}

func (r guestSection) file(raw *spec.File) {
	raw.Perm = cmp.Or(raw.Perm, 0o644)
	content := or(raw.Content, "")
	switch {
	case raw.Path == "":
		r.Wrong(&raw.Path, "a file has no path", "write path: and an absolute path on the node")
	case !decode.IsCleanPath(raw.Path):
		r.Wrong(&raw.Path, fmt.Sprintf("%q is not an absolute path", raw.Path), "write it in full, e.g. /etc/motd")
	}
	for _, prefix := range ours {
		if strings.HasPrefix(raw.Path, prefix) {
			r.Wrong(&raw.Path, raw.Path+" is managed by homelab", "set it in k3s: (server, agent, registries), or write another path, e.g. /etc/kubelet.yaml for kubelet-arg: [config=/etc/kubelet.yaml]")
		}
	}
	switch {
	case raw.Content != nil && raw.Source != "":
		r.Wrong(&raw.Source, "the file has both content and source", "keep one of them")
	case raw.Content == nil && raw.Source == "":
		r.Wrong(&raw.Content, "the file has neither content nor source", `write content: "" for an empty one`)
	case raw.Source != "":
		content, _ = r.Source(&raw.Source, raw.Source)
	}
	raw.Content = &content
	if strings.Contains(content, "PRIVATE KEY-----") {
		r.Wrong(&raw.Path, "the file has a private key, which would be in the nodes' seed images, unencrypted on the Proxmox host", "copy it to the nodes in another way")
	}
	if !decode.Matches(`^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$`, raw.Owner) {
		r.Wrong(&raw.Owner, fmt.Sprintf("%q cannot own a file", raw.Owner), "write user:group, e.g. root:root")
	}
}
