package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// Remote is the Git repository that Fleet deploys from, and how to log in. Nothing is stored
// on this machine: each read loads one commit into memory.
type Remote struct {
	Tool   Tool   // who deploys it, for the words of errors and commits; default Fleet
	URL    string // https://host/path, ssh://user@host:port/path or user@host:path; never with a password
	Branch string // default main
	Path   string // our folder in it; empty: its root
	Create bool   // create a missing branch from the repository's default branch

	Username string       // for https
	Password secret.Value // for https: a password or a token
	CA       []byte       // for https: PEM certificates to trust beside the system's

	Signers  []ssh.Signer                                                    // for ssh
	HostKeys func(ctx context.Context, addr string) ([]ssh.PublicKey, error) // for ssh, e.g. ssh.KnownHosts' HostKeys

	Author string                                                            // of commits: Name <mail>; default homelab <homelab@localhost>
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly, https through the environment's proxy
}

const (
	defaultBranch = "main"
	defaultAuthor = "homelab <homelab@localhost>"
	defaultUser   = "git" // as which nearly every Git server is logged in to by ssh
)

// place is a parsed address of a Remote.
type place struct {
	scheme     string // https, http or ssh
	user, addr string // of ssh
	path       string // of ssh
	url        string // of http(s), without user
	text       string // for people
}

// address reads the URL of a repository. Its errors never repeat a password.
func (r Remote) address() (place, error) {
	if user, rest, ok := strings.Cut(r.URL, "@"); ok && !strings.Contains(r.URL, "://") && !strings.Contains(user, "/") {
		host, file, ok := strings.Cut(rest, ":")
		if strings.Contains(user, ":") || looksLikeToken(user) {
			return place{}, r.errPassword()
		}
		if !ok || host == "" || file == "" {
			return place{}, fmt.Errorf("the Git repository %q: write user@host:path", r.URL)
		}
		return place{scheme: "ssh", user: user, addr: net.JoinHostPort(host, "22"), path: file, text: r.URL}, nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return place{}, fmt.Errorf("the Git repository's URL is not one: write https://host/path, ssh://git@host/path or git@host:path")
	}
	user := u.User.Username()
	if _, has := u.User.Password(); has || looksLikeToken(user) {
		return place{}, r.errPassword()
	}
	switch u.Scheme {
	case "https", "http":
		if u.Scheme == "http" && !r.Password.IsZero() && !loopback(u.Hostname()) {
			return place{}, fmt.Errorf("the Git repository %s would be sent the password unencrypted: use https", u.Redacted())
		}
		u.User = nil
		return place{scheme: u.Scheme, user: user, url: strings.TrimSuffix(u.String(), "/"), text: u.String()}, nil
	case "ssh":
		if user == "" {
			user = defaultUser
		}
		port := u.Port()
		if port == "" {
			port = "22"
		}
		return place{scheme: "ssh", user: user, addr: net.JoinHostPort(u.Hostname(), port), path: u.Path, text: u.Redacted()}, nil
	}
	return place{}, fmt.Errorf("the Git repository %s: %s is not a supported protocol: use https or ssh", u.Redacted(), u.Scheme)
}

// errPassword refuses a URL with a password.
func (r Remote) errPassword() error {
	return errors.New("the Git repository's URL contains a password, which would appear in the cluster and in logs; give it by reference instead (" + r.key("password") + ")")
}

// key is a key of cluster.yaml, as errors name it.
func (r Remote) key(name string) string { return string(r.Tool.orDefault()) + "." + name }

// looksLikeToken recognizes tokens that GitHub and GitLab accept as a user name.
func looksLikeToken(user string) bool {
	for _, prefix := range []string{"ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "gldt-", "glcbt-"} {
		if strings.HasPrefix(user, prefix) {
			return true
		}
	}
	return false
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r Remote) branch() string {
	if r.Branch == "" {
		return defaultBranch
	}
	return r.Branch
}

// folder is Path, cleaned; empty for the root.
func (r Remote) folder() (string, error) {
	p := path.Clean("/" + r.Path)[1:]
	if strings.HasPrefix(path.Clean(r.Path), "..") || p == ".git" || strings.HasPrefix(p, ".git/") {
		return "", fmt.Errorf("%q is not a folder of a repository", r.Path)
	}
	return p, nil
}

func (r Remote) author() (*mail.Address, error) {
	text := r.Author
	if text == "" {
		text = defaultAuthor
	}
	a, err := mail.ParseAddress(text)
	if err != nil {
		return nil, fmt.Errorf("the author %q of commits: write Name <mail@host>", text)
	}
	return a, nil
}
