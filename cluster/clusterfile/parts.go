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
	raw := r.raw.Rancher
	if raw == nil {
		return
	}
	r.spec.Platform.Rancher = &spec.Rancher{
		Hostname: raw.Hostname, Version: raw.Version, Bootstrap: raw.Bootstrap.In(r.spec.Dir),
		Replicas: or(raw.Replicas, max(1, min(3, len(r.spec.Servers())))),
	}
	r.hostname(&raw.Hostname, "rancher")
	r.chartVersion(&raw.Version, "rancher", raw.Version)
	r.between(raw.Replicas, &raw.Replicas, "replicas", 1, 9)
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
	raw := r.raw.Fleet
	if raw == nil {
		return
	}
	f := &spec.Fleet{
		Standalone: or(raw.Standalone, r.raw.Rancher == nil), Repo: raw.Repo, Branch: cmp.Or(raw.Branch, "main"),
		Path: cmp.Or(raw.Path, "fleet/"+r.spec.Name), Username: raw.Username, Password: raw.Password.In(r.spec.Dir),
		SSHKey: raw.SSHKey.In(r.spec.Dir), KnownHosts: r.existing(&raw.KnownHosts, raw.KnownHosts, false), CAFile: r.existing(&raw.CA, raw.CA, false),
		Polling: raw.Polling.Or(15 * time.Second), Default: r.choice(&raw.Default, "default", spec.ViaDirect, spec.ViaFleet), Extra: raw.Extra,
		Author: cmp.Or(raw.Author, "homelab <homelab@"+r.spec.Name+".invalid>"),
	}
	if f.Standalone && r.raw.Rancher != nil {
		r.Wrong(&raw.Standalone, "Rancher brings its own Fleet, and two of them revert each other's changes", "remove standalone: true, or rancher")
	}
	if !f.Standalone && r.raw.Rancher == nil {
		r.Wrong(&raw.Standalone, "nothing installs Fleet: it is not standalone, and there is no Rancher", "remove standalone: false, or write rancher:")
	}
	if f.Polling < 5*time.Second {
		r.Wrong(&raw.Polling, fmt.Sprintf("the repository would be polled every %s", decode.Period(f.Polling)), "write 5s or more; 15s is usual")
	}
	r.gitRepo(raw)
	r.gitPaths(raw, f)
	if !matches(`^[^<>\r\n]*[^<>\r\n ] <[^<>@\s]+@[^<>@\s]+>$`, f.Author) {
		r.Wrong(&raw.Author, fmt.Sprintf("%q cannot be a commit's author", f.Author), "write Name <name@domain>")
	}
	r.spec.Platform.Fleet = f
}

// gitRepo checks the repository and its login.
func (r *resolver) gitRepo(raw *decode.Fleet) {
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
	if ssh && raw.CA != "" {
		r.Wrong(&raw.CA, "an ssh repository has no certificate", "remove ca")
	}
	if strings.HasPrefix(raw.Repo, "http://") {
		r.Warn(&raw.Repo, "the repository and its password would travel without TLS", "write https://")
	}
}

// scpLike reports whether s is Git's short form of an ssh URL, user@host:path.
func scpLike(s string) bool { return matches(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^/:].*$`, s) }

// gitPaths checks the branch and the folders.
func (r *resolver) gitPaths(raw *decode.Fleet, f *spec.Fleet) {
	if !matches(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`, f.Branch) || strings.Contains(f.Branch, "..") || strings.HasSuffix(f.Branch, "/") || strings.HasSuffix(f.Branch, ".lock") {
		r.Wrong(&raw.Branch, fmt.Sprintf("%q cannot be a branch", f.Branch), "write e.g. main")
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
	if folder(&raw.Path, f.Path) && f.Path == "." {
		r.Wrong(&raw.Path, "homelab would own the whole repository, and delete everything else in it", "write a folder, e.g. fleet/"+r.spec.Name)
	}
	for i, p := range raw.Extra {
		if folder(&raw.Extra[i], p) && (spec.Within(p, f.Path) || spec.Within(f.Path, p) || p == ".") {
			r.Wrong(&raw.Extra[i], fmt.Sprintf("%s and %s share folders, so objects would be deployed twice", p, f.Path), "write folders outside path")
		}
		if j := slices.Index(raw.Extra, p); j < i {
			r.Wrong(&raw.Extra[i], fmt.Sprintf("folder %s is here twice", p), "keep one of them")
		}
	}
}

func (r *resolver) monitoring() {
	raw := r.raw.Monitoring
	if raw == nil {
		return
	}
	m := &spec.Monitoring{
		Retention: raw.Retention.Or(15 * 24 * time.Hour), StorageClass: raw.Class, Size: or(raw.Size, 50*spec.GiB),
		Hostname: raw.Hostname, GPUs: or(raw.GPUs, len(r.spec.GPUNodes()) > 0), Alertmanager: raw.Alertmanager,
	}
	if m.Retention < 2*time.Hour { // which is one block of Prometheus
		r.Wrong(&raw.Retention, fmt.Sprintf("metrics would be kept for %s", decode.Period(m.Retention)), "write 1d or more")
	}
	if m.Size < spec.GiB {
		r.Wrong(&raw.Size, fmt.Sprintf("%s is too little for metrics", m.Size), "write 10GiB or more")
	}
	if raw.Hostname != "" {
		r.hostname(&raw.Hostname, "grafana")
	}
	if m.GPUs && len(r.spec.GPUNodes()) == 0 {
		r.Warn(&raw.GPUs, "no node has GPUs, so there are no metrics of them", "remove gpus")
	}
	r.spec.Platform.Monitoring = m
}

func (r *resolver) backup() {
	raw := r.raw.Backup
	if raw == nil {
		return
	}
	b := &spec.Backup{
		Endpoint: raw.Endpoint, Region: cmp.Or(raw.Region, "us-east-1"), Bucket: raw.Bucket, Prefix: cmp.Or(raw.Prefix, r.spec.Name),
		AccessKey: raw.AccessKey.In(r.spec.Dir), SecretKey: raw.SecretKey.In(r.spec.Dir), Schedule: cmp.Or(raw.Schedule, "0 3 * * *"),
		Retention: raw.Retention.Or(30 * 24 * time.Hour), Namespaces: raw.Namespaces, FileSystem: or(raw.FileSystem, true),
		CAFile: r.existing(&raw.CA, raw.CA, false), Insecure: raw.Insecure,
	}
	r.isURL(&raw.Endpoint, "https", "http")
	if raw.Bucket == "" {
		r.Wrong(&raw.Bucket, "backup has no bucket", "write bucket: and its name")
	} else if !matches(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`, raw.Bucket) {
		r.Wrong(&raw.Bucket, fmt.Sprintf("%q cannot be a bucket", raw.Bucket), "write 3 to 63 lower-case letters, digits, hyphens and dots")
	}
	if !r.IsSet(&raw.AccessKey) {
		r.Wrong(&raw.AccessKey, "backup has no accessKey", "write accessKey: env:NAME or file:PATH")
	}
	if !r.IsSet(&raw.SecretKey) {
		r.Wrong(&raw.SecretKey, "backup has no secretKey", "write secretKey: env:NAME or file:PATH")
	}
	if err := schedule.Check(b.Schedule); err != nil {
		r.Wrong(&raw.Schedule, fmt.Sprintf("%q is not a schedule: %v", b.Schedule, err), "write five fields as for cron, e.g. 0 3 * * *")
	}
	if b.Retention < 24*time.Hour {
		r.Wrong(&raw.Retention, fmt.Sprintf("a backup would be deleted after %s", decode.Period(b.Retention)), "write 7d or more")
	}
	for i, n := range raw.Namespaces {
		if !decode.DNSLabel.MatchString(n) {
			r.Wrong(&raw.Namespaces[i], fmt.Sprintf("%q cannot be a namespace", n), "write its name as kubectl get namespaces shows it")
		}
	}
	if raw.Insecure && raw.CA != "" {
		r.Wrong(&raw.Insecure, "ca and insecure contradict each other", "keep one of ca and insecure")
	} else if raw.Insecure {
		r.Warn(&raw.Insecure, "nothing verifies the backup's service", "write ca: and the PEM file of the authority that signed its certificate")
	}
	r.spec.Platform.Backup = b
}
