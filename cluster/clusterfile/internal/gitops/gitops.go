// Package gitops completes and checks the repository that parts are deployed from.
package gitops

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// checker checks a file's fleet, flux or argocd.
type checker struct {
	*decode.Checker
	spec *spec.Spec
}

// Check completes and checks the section of a file that deploys from Git.
func Check(c *decode.Checker, s *spec.Spec) {
	r := checker{c, s}
	f, via := r.spec.Platform.GitOps()
	if f == nil {
		return
	}
	r.oneTool()
	fleets := via == spec.ViaFleet && r.spec.Platform.Rancher != nil // Rancher's own
	f.Standalone = f.Standalone.Or(!fleets)
	f.Path, f.Author = cmp.Or(f.Path, via+"/"+r.spec.Name), cmp.Or(f.Author, "homelab <homelab@"+r.spec.Name+".invalid>")
	f.KnownHosts, f.CAFile = r.Existing(&f.KnownHosts, f.KnownHosts, false), r.Existing(&f.CAFile, f.CAFile, false)
	if f.Standalone.IsOn() && fleets {
		r.Wrong(&f.Standalone, "Rancher brings its own Fleet, and two of them revert each other's changes", "remove standalone: true, or rancher")
	}
	if !f.Standalone.IsOn() && !fleets && via == spec.ViaFleet {
		r.Wrong(&f.Standalone, "nothing installs Fleet: it is not standalone, and there is no Rancher", "remove standalone: false, or write rancher:")
	}
	if f.Default != spec.ViaDirect && f.Default != via {
		r.Wrong(&f.Default, "this section deploys by "+via, "write direct or "+via)
	}
	if f.Polling < 5*time.Second {
		r.Wrong(&f.Polling, fmt.Sprintf("the repository would be polled every %s", decode.Period(f.Polling)), "write 5s or more; 15s is usual")
	}
	r.gitRepo(f)
	r.gitPaths(f)
	if r.IsSet(&f.SOPSKey) {
		r.sopsKey(f, via)
	}
	if !decode.Matches(`^[^<>\r\n]*[^<>\r\n ] <[^<>@\s]+@[^<>@\s]+>$`, f.Author) {
		r.Wrong(&f.Author, fmt.Sprintf("%q cannot be a commit's author", f.Author), "write Name <name@domain>")
	}
}

// oneTool refuses a second tool, which would undo what the first does.
func (r checker) oneTool() {
	p := &r.spec.Platform
	switch {
	case p.ArgoCD != nil && (p.Fleet != nil || p.Flux != nil):
		r.Wrong(&p.ArgoCD, "Argo CD and another tool would both deploy the parts", "keep one of fleet:, flux: and argocd:")
	case p.Flux != nil && p.Fleet != nil:
		r.Wrong(&p.Flux, "Fleet and Flux would both deploy the parts", "keep fleet: or flux:")
	}
}

// sopsKey refuses a key that nothing would use.
func (r checker) sopsKey(f *spec.Fleet, via string) {
	switch {
	case via != spec.ViaFlux:
		r.Wrong(&f.SOPSKey, "only Flux decrypts what it deploys: this tool would apply encrypted Secrets as they are", "remove sopsKey, or write flux: in place of this section")
	case len(f.Extra) == 0:
		r.Wrong(&f.SOPSKey, "there is nothing to decrypt: what homelab writes has no Secrets", "name the folders with encrypted files in extra, or remove sopsKey")
	}
}

// gitRepo checks the repository and its login.
func (r checker) gitRepo(raw *spec.Fleet) {
	if raw.Repo == "" {
		return
	}
	ssh := strings.HasPrefix(raw.Repo, "ssh://") || scpLike(raw.Repo)
	if !ssh {
		r.IsURL(&raw.Repo, "https", "http")
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
func scpLike(s string) bool { return decode.Matches(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^/:].*$`, s) }

// gitPaths checks the branch and the folders.
func (r checker) gitPaths(f *spec.Fleet) {
	if !decode.Matches(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`, f.Branch) || strings.Contains(f.Branch, "..") || strings.HasSuffix(f.Branch, "/") || strings.HasSuffix(f.Branch, ".lock") {
		r.Wrong(&f.Branch, fmt.Sprintf("%q cannot be a branch", f.Branch), "write e.g. main")
	}
	folder := func(at any, p string) bool {
		good := p != "" && !path.IsAbs(p) && path.Clean(p) == p && p != ".." && !strings.HasPrefix(p, "../") && decode.Matches(`^[A-Za-z0-9._/-]+$`, p)
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
		if folder(&f.Extra[i], p) && (spec.IsWithin(p, f.Path) || spec.IsWithin(f.Path, p) || p == ".") {
			r.Wrong(&f.Extra[i], fmt.Sprintf("%s and %s share folders, so objects would be deployed twice", p, f.Path), "write folders outside path")
		}
		if j := slices.Index(f.Extra, p); j < i {
			r.Wrong(&f.Extra[i], fmt.Sprintf("folder %s is here twice", p), "keep one of them")
		}
	}
}
