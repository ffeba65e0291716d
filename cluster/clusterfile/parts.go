package clusterfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/schedule"
)

func (r *resolver) rancher() {
	raw := r.spec.Platform.Rancher
	if raw == nil {
		return
	}
	if !r.IsSet(&raw.Replicas) {
		raw.Replicas = max(1, min(3, len(r.spec.Servers())))
	}
	r.hostname(&raw.Hostname, "rancher")
	r.chartVersion(&raw.Version, "rancher", raw.Version)
	r.within(&raw.Replicas, "replicas", 1, 9)
}

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

func (r *resolver) fleet() {
	f := r.spec.Platform.Fleet
	if f == nil {
		return
	}
	f.Standalone = f.Standalone.Or(r.spec.Platform.Rancher == nil)
	f.Path, f.Author = cmp.Or(f.Path, "fleet/"+r.spec.Name), cmp.Or(f.Author, "homelab <homelab@"+r.spec.Name+".invalid>")
	f.KnownHosts, f.CAFile = r.existing(&f.KnownHosts, f.KnownHosts, false), r.existing(&f.CAFile, f.CAFile, false)
	if f.Standalone.IsOn() && r.spec.Platform.Rancher != nil {
		r.Wrong(&f.Standalone, "Rancher brings its own Fleet, and two of them revert each other's changes", "remove standalone: true, or rancher")
	}
	if !f.Standalone.IsOn() && r.spec.Platform.Rancher == nil {
		r.Wrong(&f.Standalone, "nothing installs Fleet: it is not standalone, and there is no Rancher", "remove standalone: false, or write rancher:")
	}
	if f.Polling < 5*time.Second {
		r.Wrong(&f.Polling, fmt.Sprintf("the repository would be polled every %s", decode.Period(f.Polling)), "write 5s or more; 15s is usual")
	}
	r.gitRepo(f)
	r.gitPaths(f)
	if !matches(`^[^<>\r\n]*[^<>\r\n ] <[^<>@\s]+@[^<>@\s]+>$`, f.Author) {
		r.Wrong(&f.Author, fmt.Sprintf("%q cannot be a commit's author", f.Author), "write Name <name@domain>")
	}
}

// gitRepo checks the repository and its login.
func (r *resolver) gitRepo(raw *spec.Fleet) {
	if raw.Repo == "" {
		return
	}
	ssh := strings.HasPrefix(raw.Repo, "ssh://") || scpLike(raw.Repo)
	if !ssh {
		r.isURL(&raw.Repo, "https", "http")
	} else if u, err := url.Parse(raw.Repo); !scpLike(raw.Repo) && (err != nil || u.Host == "" || u.Path == "") {
		r.Wrong(&raw.Repo, "this is not the URL of a Git repository", "write ssh://git@host/path.git")
	} else if err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			r.Wrong(&raw.Repo, "this URL carries a password", "write sshKey: file:PATH")
		}
	}
	login, key := r.IsSet(&raw.Username) || r.IsSet(&raw.Password), r.IsSet(&raw.SSHKey) || r.IsSet(&raw.KnownHosts)
	switch {
	case ssh && login:
		r.Wrong(&raw.Password, "an ssh repository does not use username and password", "write sshKey: and knownHosts:")
	case !ssh && key:
		r.Wrong(&raw.SSHKey, "an https repository does not use an SSH key", "write username: and password: with a token, or an ssh repository")
	case ssh && !r.IsSet(&raw.SSHKey):
		r.Wrong(&raw.SSHKey, "the ssh repository has no key", "write sshKey: file:PATH of a private key that may read and write it")
	case ssh && raw.KnownHosts == "":
		r.Wrong(&raw.KnownHosts, "the host key of the repository's server is unknown, so any server could pose as it", "write knownHosts: and a file with the output of ssh-keyscan, compared with what the server's owner publishes")
	case !ssh && r.IsSet(&raw.Username) != r.IsSet(&raw.Password):
		r.Wrong(&raw.Password, "the repository's login is incomplete", "write both username and password; for a token any username does")
	}
	if ssh && raw.CAFile != "" {
		r.Wrong(&raw.CAFile, "an ssh repository has no certificate", "remove ca")
	}
	if strings.HasPrefix(raw.Repo, "http://") {
		r.Warn(&raw.Repo, "the repository and its password would travel without TLS", "write https://")
	}
}

// scpLike reports whether s is Git's short form of an ssh URL, user@host:path.
func scpLike(s string) bool { return matches(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^/:].*$`, s) }

// gitPaths checks the branch and the folders.
func (r *resolver) gitPaths(f *spec.Fleet) {
	if !matches(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`, f.Branch) || strings.Contains(f.Branch, "..") || strings.HasSuffix(f.Branch, "/") || strings.HasSuffix(f.Branch, ".lock") {
		r.Wrong(&f.Branch, fmt.Sprintf("%q cannot be a branch", f.Branch), "write e.g. main")
	}
	folder := func(at any, p string) bool {
		good := p != "" && !path.IsAbs(p) && path.Clean(p) == p && p != ".." && !strings.HasPrefix(p, "../") && matches(`^[A-Za-z0-9._/-]+$`, p)
		if !good {
			r.Wrong(at, fmt.Sprintf("%q is not a folder of the repository", p), "write a path from its root without a slash before it, e.g. fleet/"+r.spec.Name)
		}
		return good
	}
	// homelab writes and deletes everything below its folder, so that must not be the whole
	// repository.
	if folder(&f.Path, f.Path) && f.Path == "." {
		r.Wrong(&f.Path, "homelab would own the whole repository, and delete everything else in it", "write a folder, e.g. fleet/"+r.spec.Name)
	}
	for i, p := range f.Extra {
		if folder(&f.Extra[i], p) && (spec.Within(p, f.Path) || spec.Within(f.Path, p) || p == ".") {
			r.Wrong(&f.Extra[i], fmt.Sprintf("%s and %s share folders, so objects would be deployed twice", p, f.Path), "write folders outside path")
		}
		if j := slices.Index(f.Extra, p); j < i {
			r.Wrong(&f.Extra[i], fmt.Sprintf("folder %s is here twice", p), "keep one of them")
		}
	}
}

func (r *resolver) monitoring() {
	m := r.spec.Platform.Monitoring
	if m == nil {
		return
	}
	m.GPUs = m.GPUs.Or(len(r.spec.GPUNodes()) > 0)
	if m.Retention < 2*time.Hour { // which is one block of Prometheus
		r.Wrong(&m.Retention, fmt.Sprintf("metrics would be kept for %s", decode.Period(m.Retention)), "write 1d or more")
	}
	if m.Size < spec.GiB {
		r.Wrong(&m.Size, fmt.Sprintf("%s is too little for metrics", m.Size), "write 10GiB or more")
	}
	if m.Hostname != "" {
		r.hostname(&m.Hostname, "grafana")
	}
	if m.GPUs.IsOn() && len(r.spec.GPUNodes()) == 0 {
		r.Warn(&m.GPUs, "no node has GPUs, so there are no metrics of them", "remove gpus")
	}
}

func (r *resolver) backup() {
	b := r.spec.Platform.Backup
	if b == nil {
		return
	}
	b.Prefix, b.CAFile = cmp.Or(b.Prefix, r.spec.Name), r.existing(&b.CAFile, b.CAFile, false)
	r.isURL(&b.Endpoint, "https", "http")
	if b.Bucket == "" {
		r.Wrong(&b.Bucket, "backup has no bucket", "write bucket: and its name")
	} else if !matches(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`, b.Bucket) {
		r.Wrong(&b.Bucket, fmt.Sprintf("%q cannot be a bucket", b.Bucket), "write 3 to 63 lower-case letters, digits, hyphens and dots")
	}
	if !r.IsSet(&b.AccessKey) {
		r.Wrong(&b.AccessKey, "backup has no accessKey", "write accessKey: env:NAME or file:PATH")
	}
	if !r.IsSet(&b.SecretKey) {
		r.Wrong(&b.SecretKey, "backup has no secretKey", "write secretKey: env:NAME or file:PATH")
	}
	if err := schedule.Check(b.Schedule); err != nil {
		r.Wrong(&b.Schedule, fmt.Sprintf("%q is not a schedule: %v", b.Schedule, err), "write five fields as for cron, e.g. 0 3 * * *")
	}
	if b.Retention < 24*time.Hour {
		r.Wrong(&b.Retention, fmt.Sprintf("a backup would be deleted after %s", decode.Period(b.Retention)), "write 7d or more")
	}
	for i, n := range b.Namespaces {
		if !decode.DNSLabel.MatchString(n) {
			r.Wrong(&b.Namespaces[i], fmt.Sprintf("%q cannot be a namespace", n), "write its name as kubectl get namespaces shows it")
		}
	}
	if b.Insecure && b.CAFile != "" {
		r.Wrong(&b.Insecure, "ca and insecure contradict each other", "keep one of ca and insecure")
	} else if b.Insecure {
		r.Warn(&b.Insecure, "nothing verifies the backup's service", "write ca: and the PEM file of the authority that signed its certificate")
	}
}
