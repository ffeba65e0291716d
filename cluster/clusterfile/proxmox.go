package clusterfile

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// proxmoxSection completes and checks proxmox.
type proxmoxSection struct{ *resolver }

func (r proxmoxSection) proxmox() {
	raw := &r.spec.Proxmox
	if !r.IsSet(raw) { // see noProxmox
		return
	}
	said := raw.Endpoint != ""
	r.root = raw.User == "root@pam"
	raw.Endpoint = r.endpoint(&raw.Endpoint)
	if raw.Region == "" {
		raw.Region = r.spec.Name
	} else if !spec.IsLabelValue(raw.Region) {
		r.Wrong(&raw.Region, fmt.Sprintf("region %q cannot be the value of a label", raw.Region), "write at most 63 letters, digits, - _ and ., with letters or digits at the ends")
	}
	raw.CAFile = r.Existing(&raw.CAFile, raw.CAFile, false)
	raw.Fingerprint = r.fingerprint(&raw.Fingerprint)
	r.tokenID()
	if r.spec.IsLab() {
		r.labNeedsNone()
		return
	}
	if said {
		r.credentials()
	}
	r.trust()
}

// noProxmox checks a file that names no Proxmox VE: there is no host to create machines on.
func (r proxmoxSection) noProxmox() {
	if r.IsSet(&r.spec.Proxmox) {
		return
	}
	const cure = "write proxmox: with endpoint: lab, or the host's address, e.g. endpoint: https://10.0.0.5:8006"
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil && nfs.VM != nil {
		r.Wrong(&nfs.VM, "the NFS server would be created on a Proxmox host, and the file names none", cure+"; or name an existing server: server: and export:")
	}
	if r.IsSet(&r.spec.Harvester) {
		return
	}
	var made []string
	for _, n := range r.machines() {
		if !n.External {
			made = append(made, n.Name)
		}
	}
	if len(made) == 0 {
		return
	}
	r.Wrong(&r.spec.Proxmox, fmt.Sprintf("%s would be created on a Proxmox host, and the file names none", suggest.FirstOf(made)),
		cure+"; or harvester: with a kubeconfig; or give each of them external: user@address, if the machines exist already")
}

// labNeedsNone warns of settings that the lab does not use.
func (r proxmoxSection) labNeedsNone() {
	raw := &r.spec.Proxmox
	for _, at := range []any{&raw.TokenID, &raw.TokenSecret, &raw.User, &raw.Password, &raw.CAFile, &raw.Fingerprint, &raw.Insecure} {
		if r.IsSet(at) {
			r.Warn(at, "the lab brings its own token and certificate, so this is not used", "remove it, or name a real endpoint")
		}
	}
	p := &r.spec.Proxmox
	*p = spec.Proxmox{Endpoint: p.Endpoint, Region: p.Region, Host: p.Host, Hosts: p.Hosts}
}

const tokenID = `^[^\s@!=:/]+@[A-Za-z][A-Za-z0-9._-]*![A-Za-z][A-Za-z0-9._-]*$`

// tokenID checks the token's ID. Its messages never repeat it: people paste the whole token, with
// its secret.
func (r proxmoxSection) tokenID() {
	switch at := &r.spec.Proxmox.TokenID; {
	case *at == "" || decode.Matches(tokenID, *at):
	case strings.Contains(*at, "="):
		r.Wrong(at, "token holds more than the token's ID, maybe the secret itself", "keep user@realm!name here, and write secret: env:NAME or secret: file:PATH beside it")
	default:
		r.Wrong(at, "token is not the ID of an API token", "write user@realm!name, e.g. homelab@pve!cluster")
	}
}

func (r proxmoxSection) credentials() {
	raw := &r.spec.Proxmox
	switch {
	case raw.TokenID == "" && !r.IsSet(&raw.TokenSecret):
		r.Wrong(&raw.TokenID, "proxmox has no API token", "write token: user@realm!name and secret: env:NAME; docs/real-host.md says how to make one")
	case raw.TokenID == "":
		r.Wrong(&raw.TokenID, "proxmox has a token's secret but not its ID", "write token: user@realm!name")
	case !r.IsSet(&raw.TokenSecret):
		r.Wrong(&raw.TokenSecret, "the API token has no secret", "write secret: env:NAME or secret: file:PATH")
	}
	switch {
	case raw.User == "" && !raw.Password.IsZero():
		r.Wrong(&raw.User, "proxmox has a password and no user", "write user: root@pam")
	case raw.User != "" && !decode.Matches(`^[^\s:/@!]+@[A-Za-z][A-Za-z0-9._-]*$`, raw.User):
		r.Wrong(&raw.User, "user is not a Proxmox user", "write name@realm, e.g. root@pam; an API token belongs in token")
	}
}

func (r proxmoxSection) trust() {
	raw := &r.spec.Proxmox
	switch {
	case raw.Insecure && (raw.CAFile != "" || raw.Fingerprint != ""):
		r.Wrong(&raw.Insecure, "insecure: true would make ca and fingerprint useless", "remove insecure")
	case raw.CAFile != "" && raw.Fingerprint != "":
		r.Wrong(&raw.CAFile, "ca and fingerprint exclude each other: a fingerprint trusts one certificate, and ca all that an authority signs", "keep one of them")
	case raw.Insecure:
		r.Warn(&raw.Insecure, "the certificate of the Proxmox API is not checked: anyone on the path can read the token", "write fingerprint: with the SHA-256 that pvenode cert info shows, or ca:")
	}
}

// endpoint returns Lab or https://host:port.
func (r proxmoxSection) endpoint(at *string) string {
	text := strings.TrimSpace(*at)
	switch {
	case text == "":
		r.Wrong(at, "proxmox has no endpoint", "write endpoint: lab, or the host's address, e.g. endpoint: https://10.0.0.5:8006")
		return ""
	case strings.EqualFold(text, spec.Lab):
		return spec.Lab
	case strings.Contains(text, "@"):
		r.Wrong(at, "endpoint contains a login", "write only the host, and token: and secret: beside it")
		return ""
	}
	if !strings.Contains(text, "://") {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
			text = "[" + text + "]"
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || !isHost(u.Hostname()) || !decode.IsPort(cmp.Or(u.Port(), "8006")) {
		r.Wrong(at, fmt.Sprintf("%q is not the address of a Proxmox API", *at), "write https://host:8006, or lab")
		return ""
	}
	switch {
	case u.Scheme != "https":
		r.Wrong(at, fmt.Sprintf("the Proxmox API does not speak %s", u.Scheme), "write https://"+u.Host)
	case strings.Trim(u.Path, "/") != "" && strings.Trim(u.Path, "/") != "api2/json" || u.RawQuery != "" || u.Fragment != "":
		r.Wrong(at, "endpoint has a path that is not the API's", "write https://"+u.Host)
	}
	return "https://" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "8006"))
}

// fingerprint returns upper-case hex with colons.
func (r proxmoxSection) fingerprint(at *string) string {
	if *at == "" {
		return ""
	}
	text := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(*at), "sha256:"), ":", "")
	b, err := hex.DecodeString(text)
	switch {
	case err == nil && len(b) == 20:
		r.Wrong(at, "fingerprint is a SHA-1", "write the SHA-256 one, which pvenode cert info shows")
	case err != nil || len(b) != 32:
		r.Wrong(at, "fingerprint is not a SHA-256", "write 32 bytes in hex with colons, as pvenode cert info shows them")
	}
	parts := make([]string, len(b))
	for i, v := range b {
		parts[i] = fmt.Sprintf("%02X", v)
	}
	return strings.Join(parts, ":")
}

// nodeName is pve-node of Proxmox's JSONSchema.pm: capitals are allowed, and kept.
var nodeName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)

// hosts lists every host that is declared or has a node.
func (r proxmoxSection) hosts() {
	r.declared = r.spec.Proxmox.Hosts
	for i := range r.declared {
		h := &r.declared[i]
		r.hostName(h, h.Name)
		if h.SSH != "" {
			h.SSH = r.login(&h.SSH, "root")
		}
	}
	r.spec.Proxmox.Hosts = slices.Clone(r.declared)
	for _, n := range r.machines() {
		if n.Host != "" && n.OnProxmox() && !n.Unplaced() && !slices.ContainsFunc(r.spec.Proxmox.Hosts, func(h spec.Host) bool { return h.Name == n.Host }) {
			r.spec.Proxmox.Hosts = append(r.spec.Proxmox.Hosts, spec.Host{Name: n.Host})
		}
	}
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil && nfs.VM != nil {
		host := cmp.Or(nfs.VM.Host, r.defaultHost())
		r.hostName(&nfs.VM.Host, host)
		if host != spec.AnyHost && !slices.ContainsFunc(r.spec.Proxmox.Hosts, func(h spec.Host) bool { return h.Name == host }) {
			r.spec.Proxmox.Hosts = append(r.spec.Proxmox.Hosts, spec.Host{Name: host})
		}
	}
	slices.SortFunc(r.spec.Proxmox.Hosts, func(a, b spec.Host) int { return cmp.Compare(a.Name, b.Name) })
}

func (r proxmoxSection) hostName(at any, name string) {
	if !nodeName.MatchString(name) {
		r.Wrong(at, fmt.Sprintf("%q cannot be a Proxmox host's name", name), "write the name that the left column of the web interface shows")
	}
}
