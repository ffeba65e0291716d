package clusterfile

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// unique reports the second use of a value, with the place of the first.
func unique[K comparable](r *resolver, seen map[K]any, key K, at any, what, cure string) {
	if first, ok := seen[key]; ok {
		where := r.Line(first)
		if r.Place(first) == r.Place(at) {
			where = "the same line"
		}
		r.Wrong(at, fmt.Sprintf("%s, in %s", what, where), cure)
		return
	}
	seen[key] = at
}

// host is a host that the file declares.
func (r *resolver) host(name string) *spec.Host {
	for i := range r.declared {
		if r.declared[i].Name == name {
			return &r.declared[i]
		}
	}
	return nil
}

func (r *resolver) hostNames() []string {
	var out []string
	for _, h := range r.declared {
		out = append(out, h.Name)
	}
	return out
}

// pipName matches what pip installs by name, with a version or an address.
const pipName = `^[A-Za-z0-9][^'\n]*$`

// imageName matches host/path:tag, or with @sha256 at the end.
const imageName = `^[a-z0-9]+([._-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?$`

// or returns what p points to, or the default when it is nil.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// hostname checks a part's hostname.
func (r *resolver) hostname(at *string, part string) {
	switch {
	case *at == "":
		r.Wrong(at, part+" has no hostname", "write hostname: "+part+".lab.example, a name that your DNS resolves to the cluster")
	case isAddress(*at):
		r.Wrong(at, fmt.Sprintf("%s's hostname is the address %s, and certificates and Ingresses need a name", part, *at), "write a name, e.g. "+part+".lab.example")
	case !decode.IsGoodHostname(*at):
		r.Wrong(at, fmt.Sprintf("%q cannot be %s's hostname", *at, part), "write a name with its domain in lower-case letters, without https:// and path, e.g. "+part+".lab.example")
	}
}

func isAddress(s string) bool { _, err := netip.ParseAddr(s); return err == nil }

func (r *resolver) chartVersion(at any, name, version string) {
	if version != "" && !spec.IsChartVersion(version) {
		r.Wrong(at, fmt.Sprintf("%q is not an exact version of a chart", version), "write it in full, e.g. "+cmp.Or(r.part(name).Version, "1.2.3"))
	}
}

func isHost(s string) bool { return isAddress(s) || decode.IsDNSName(strings.ToLower(s)) }

// defaultHost is the host of nodes that name none.
func (r *resolver) defaultHost() string {
	raw := &r.spec.Proxmox
	switch {
	case raw.Host != "":
		return raw.Host
	case len(r.declared) > 0:
		return r.declared[0].Name
	case r.spec.IsLab():
		return "pve1"
	default:
		return "pve" // what Proxmox's installer suggests
	}
}

// defaultStorage is the storage of disks that name none.
func (r *resolver) defaultStorage() string {
	if r.spec.IsLab() {
		return "vmdata"
	}
	if r.spec.HasHarvester() {
		return "harvester-longhorn" // what Harvester's installer makes
	}
	return "local-lvm" // what Proxmox's installer makes
}

// login normalises user@host:port; the user and the port may be left out, and it may be a URL.
func (r *resolver) login(at *string, defaultUser string) string {
	place := strings.TrimSuffix(strings.TrimPrefix(*at, "ssh://"), "/")
	user, host, ok := decode.CutLast(place, "@")
	if !ok {
		user, host = defaultUser, place
	}
	name, port := host, "22"
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	}
	name = strings.Trim(name, "[]")
	if strings.Contains(user, ":") {
		r.Wrong(at, "this contains a password", "write user@host:port; logins use keys")
		return ""
	}
	if !isHost(name) || !decode.IsPort(port) || !decode.Matches(userName, user) {
		r.Wrong(at, "this is not a place to log in to", "write user@host:port, e.g. root@10.0.0.5:22")
		return ""
	}
	return user + "@" + net.JoinHostPort(name, port)
}

const userName = `^[a-z_][a-z0-9_-]{0,31}$`

// storageName checks a storage's ID: a letter, then letters, digits, - _ and .
func (r *resolver) storageName(at *string) {
	if *at != "" && !decode.Matches(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$`, *at) {
		r.Wrong(at, fmt.Sprintf("%q cannot be a storage's name", *at), "write the name that pvesm status shows, e.g. local-lvm")
	}
}
