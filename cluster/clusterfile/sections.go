package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/limit"
)

const userName = `^[a-z_][a-z0-9_-]{0,31}$`

// matches compiles at each call: the file is small and read once.
func matches(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }

func (r *resolver) image() {
	img := &r.spec.Image
	d := distro.Named(img.Distribution)
	img.Release = d.Release
	r.imageSums(img)
	r.isURL(&img.URL, "http", "https")
	for _, at := range []*string{&img.ImageStorage, &img.TemplateStorage, &img.SeedStorage} {
		r.storageName(at)
	}
	img.SHA256, img.SHA512 = strings.ToLower(img.SHA256), strings.ToLower(img.SHA512)
	switch {
	case r.spec.LabGuests.QEMU():
		r.labHasImage(img)
	case img.Template != "" && img.URL != "":
		r.Wrong(&img.Template, "the image is both a template and a URL", "keep template to use an existing one, or url to create one")
	case img.Template != "":
	case img.URL == "" && img.SHA256+img.SHA512 == "":
		img.URL, img.SHA256, img.SHA512 = d.Image, d.SHA256, d.SHA512
	case img.URL == "":
		r.Wrong(&img.URL, "the image has a checksum and no URL", "write url: beside it")
	case img.SHA256+img.SHA512 == "" && !r.spec.IsLab():
		key := strings.ToLower(strings.TrimSuffix(d.Sums, "SUMS"))
		r.Wrong(&img.SHA256, "the image has no checksum", "write "+key+": with the image's line in the file "+d.Sums+" beside it")
	}
}

// imageSums checks the checksums that the file has for its image.
func (r *resolver) imageSums(raw *spec.Image) {
	if raw.SHA256 != "" && !matches(`^[0-9a-fA-F]{64}$`, raw.SHA256) {
		r.Wrong(&raw.SHA256, "sha256 is not a SHA-256", "write its 64 hex digits")
	}
	if raw.SHA512 != "" && !matches(`^[0-9a-fA-F]{128}$`, raw.SHA512) {
		r.Wrong(&raw.SHA512, "sha512 is not a SHA-512", "write its 128 hex digits")
	}
	if raw.SHA256 != "" && raw.SHA512 != "" {
		r.Wrong(&raw.SHA256, "the image has two checksums, and Proxmox compares one", "keep the longer one")
	}
	if release := distro.Unusable(raw.URL); release != "" {
		r.Wrong(&raw.URL, "this is an image of "+release+", whose cloud-init cannot rename the network card to eth0: its machines get no address",
			"leave it out, or write one of "+distro.Named(raw.Distribution).Title)
	}
	for _, d := range distro.All() {
		if name := path.Base(raw.URL); strings.HasPrefix(name, d.ID+"-") && distro.Named(raw.Distribution).ID != d.ID {
			r.Wrong(&raw.URL, fmt.Sprintf("%s is not an image of %s", name, distro.Named(raw.Distribution).Title), "write distribution: "+d.Name+" beside it")
		}
	}
}

// storageName checks a storage's ID: a letter, then letters, digits, - _ and .
func (r *resolver) storageName(at *string) {
	if *at != "" && !matches(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$`, *at) {
		r.Wrong(at, fmt.Sprintf("%q cannot be a storage's name", *at), "write the name that pvesm status shows, e.g. local-lvm")
	}
}

// isURL checks a URL, without repeating it when it carries a password.
func (r *resolver) isURL(at *string, schemes ...string) {
	if *at == "" {
		return
	}
	u, err := url.Parse(*at)
	switch {
	case err == nil && u.User != nil:
		r.Wrong(at, "this URL carries a login", "write it without one; passwords belong in files or the environment")
	case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		r.Wrong(at, "this is not a URL that can be used here", "write "+schemes[0]+"://host and the rest")
	}
}

// network resolves one network section; its checks need the nodes, and come later.
func (r *resolver) network(n *spec.Network) {
	if len(n.DNS) == 0 && n.Gateway.IsValid() && !n.DHCP {
		n.DNS = []netip.Addr{n.Gateway}
	}
	r.within(&n.VLAN, "vlan", 1, 4094)
	if n.MTU == 1 {
		r.Wrong(&n.MTU, "mtu: 1 is Proxmox's word for the bridge's MTU", "remove it: that is the default")
	} else {
		r.within(&n.MTU, "mtu", 576, 65520)
	}
	r.within(&n.Queues, "queues", 1, 64)
	if !matches(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`, n.Bridge) {
		r.Wrong(&n.Bridge, fmt.Sprintf("%q cannot be a bridge's name", n.Bridge), "write the name that the host's network page shows, e.g. vmbr0")
	}
	for i, s := range n.Search {
		if !decode.IsDNSName(s) {
			r.Wrong(&n.Search[i], fmt.Sprintf("%q is not a domain", s), "write e.g. home.arpa")
		}
	}
}

// within checks a number that is in the file.
func (r *resolver) within(v *int, name string, low, high int) {
	if r.IsSet(v) {
		r.between(v, v, name, low, high)
	}
}

// between checks a number that may be absent.
func (r *resolver) between(v *int, at any, name string, low, high int) {
	if v != nil && (*v < low || *v > high) {
		r.Wrong(at, fmt.Sprintf("%s is %d", name, *v), fmt.Sprintf("write a number from %d to %d", low, high))
	}
}

func (r *resolver) access() {
	a := &r.spec.Access
	a.User = cmp.Or(a.User, distro.Named(r.spec.Image.Distribution).User)
	if strings.ContainsAny(a.PrivateKey, "\r\n") || strings.Contains(a.PrivateKey, "PRIVATE KEY") {
		r.Wrong(&a.PrivateKey, "privateKey holds a key itself", "save it to a file with mode 0600 and write the file's path")
		a.PrivateKey = ""
	} else {
		a.PrivateKey = r.existing(&a.PrivateKey, a.PrivateKey, false)
	}
	if !matches(userName, a.User) || a.User == "root" {
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
	r.isURL(&a.Proxy, "socks5", "socks5h")
	if len(a.PublicKeys) == 0 && (a.PrivateKey != "" || a.Agent) && r.IsSet(&r.spec.Proxmox) { // without it, the machines exist, and have keys
		r.Wrong(&a.PublicKeys, "ssh names a private key or an agent and no public key, so nobody could log in", "write publicKeys: [~/.ssh/id_ed25519.pub], or remove all of them: homelab then has a key of its own")
	}
}

// maxSource limits the size of files that the cluster file names.
const maxSource = 1 << 20

// publicKeys returns the keys of one item: itself, or the lines of the file it names.
func (r *resolver) publicKeys(at *string) []string {
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
	text, ok := r.source(at, path)
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

// source reads a file that the cluster file names.
func (r *resolver) source(at any, path string) (string, bool) {
	before := len(r.Problems)
	path = r.existing(at, path, false)
	if len(r.Problems) > before {
		return "", false
	}
	b, err := limit.File(path, maxSource) // a mistake of the same place may have been told before
	switch {
	case errors.As(err, new(*limit.Error)):
		r.Wrong(at, path+" is larger than 1 MiB", "fetch it on the node instead; this goes into the seed of every node")
		return "", false
	case err != nil:
		r.Wrong(at, err.Error(), "make it readable")
		return "", false
	}
	return string(b), true
}

func (r *resolver) guest() {
	g := &r.spec.Guest
	for _, at := range []*string{&g.APTMirror, &g.APTProxy, &g.HTTPSProxy} {
		r.isURL(at, "http", "https")
	}
	for i, p := range g.Packages {
		if !matches(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`, p) {
			r.Wrong(&g.Packages[i], fmt.Sprintf("%q cannot be a package", p), "write its name, or name=version")
		}
	}
	for i, m := range g.KernelModules {
		if !matches(`^[A-Za-z0-9_-]+$`, m) {
			r.Wrong(&g.KernelModules[i], fmt.Sprintf("%q cannot be a kernel module", m), "write its name alone, e.g. br_netfilter")
		}
	}
	for k, v := range g.Sysctls {
		if !matches(`^[A-Za-z0-9_][A-Za-z0-9_./*-]*$`, k) || strings.ContainsAny(v, "\r\n") || v == "" {
			r.Wrong(r.MemberAt(&g.Sysctls, k), fmt.Sprintf("%q cannot be set by sysctl", k), "write name: value, e.g. vm.max_map_count: 262144")
		}
	}
	if !matches(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`, g.Timezone) {
		r.Wrong(&g.Timezone, fmt.Sprintf("%q is not a time zone", g.Timezone), "write e.g. Europe/Vienna or Etc/UTC")
	}
	for i := range g.Files {
		r.file(&g.Files[i])
	}
}

// ours are files on the nodes that homelab writes.
var ours = []string{"/etc/rancher/k3s/", "/var/lib/rancher/k3s/", "/etc/systemd/system/k3s"}

func (r *resolver) file(raw *spec.File) {
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
		content, _ = r.source(&raw.Source, raw.Source)
	}
	raw.Content = &content
	if strings.Contains(content, "PRIVATE KEY-----") {
		r.Wrong(&raw.Path, "the file has a private key, which would be in the nodes' seed images, unencrypted on the Proxmox host", "copy it to the nodes in another way")
	}
	if !matches(`^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$`, raw.Owner) {
		r.Wrong(&raw.Owner, fmt.Sprintf("%q cannot own a file", raw.Owner), "write user:group, e.g. root:root")
	}
}
