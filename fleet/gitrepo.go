package fleet

import (
	"cmp"
	"fmt"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// GitRepo names the repository that Fleet or Flux deploys to its own cluster.
type GitRepo struct {
	Tool       Tool     // who deploys; default Fleet
	Name       string   // of the object; default homelab
	URL        string   // as in [Remote]
	Branch     string   // default main
	Paths      []string // folders in it; empty: all of it
	Polling    time.Duration
	Username   string // with Password, for https
	Password   secret.Value
	SSHKey     secret.Value // PEM, for ssh
	KnownHosts string       // contents of a known_hosts file, for ssh: Fleet trusts no other host
	CA         []byte       // PEM, for https
	SOPSKey    secret.Value // an age key, with which Flux decrypts what is in the folders
}

const (
	defaultRepoName = "homelab"
	// Fleet's own default (internal/cmd/controller/gitops/reconciler/gitjob_controller.go).
	defaultPolling = 15 * time.Second
)

func (g GitRepo) name() string {
	if g.Name == "" {
		return defaultRepoName
	}
	return g.Name
}

// Objects returns the objects to apply: the GitRepo, and the Secret with which Fleet logs in,
// which is nil if it is not needed. Apply the Secret first.
func (g GitRepo) Objects() ([]runtime.Object, *chart.Secret, error) {
	p, err := Remote{Tool: g.Tool, URL: g.URL, Password: g.Password}.address()
	if err != nil {
		return nil, nil, err
	}
	switch g.Tool {
	case ToolFlux:
		return g.fluxObjects(p)
	case ToolArgo:
		return g.argoObjects(p)
	}
	credentials, err := g.secret(p)
	if err != nil {
		return nil, nil, err
	}
	polling := g.Polling
	if polling <= 0 {
		polling = defaultPolling
	}
	branch := g.Branch
	if branch == "" {
		branch = defaultBranch
	}
	repo := &api.GitRepo{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.SchemeGroupVersion.String(), Kind: "GitRepo"},
		ObjectMeta: metav1.ObjectMeta{Namespace: localNamespace, Name: g.name()},
		Spec: api.GitRepoSpec{Repo: g.URL, Branch: branch, Paths: g.Paths, CABundle: g.CA,
			PollingInterval: &metav1.Duration{Duration: polling}},
	}
	if credentials != nil {
		repo.Spec.ClientSecretName = credentials.Name
	}
	return []runtime.Object{repo}, credentials, nil
}

// secret is the Secret with which Fleet logs in to the repository. Its types and keys are
// those that Fleet reads (pkg/git, GetAuthFromSecret).
func (g GitRepo) secret(p place) (*chart.Secret, error) {
	s := &chart.Secret{Namespace: localNamespace, Name: g.name() + "-git"}
	user, err := g.user(p)
	switch {
	case err != nil:
		return nil, err
	case p.scheme == "ssh":
		s.Type = string(corev1.SecretTypeSSHAuth)
		s.Data = map[string]secret.Value{corev1.SSHAuthPrivateKey: g.SSHKey, "known_hosts": secret.New(g.KnownHosts)}
	case user == "":
		return nil, nil
	default:
		s.Type = string(corev1.SecretTypeBasicAuth)
		s.Data = map[string]secret.Value{corev1.BasicAuthUsernameKey: secret.New(user), corev1.BasicAuthPasswordKey: g.Password}
	}
	return s, nil
}

// user is who logs in with the password; empty without one, and with a key. It refuses what the tool cannot log
// in with.
func (g GitRepo) user(p place) (string, error) {
	t := g.Tool.orDefault()
	user := cmp.Or(g.Username, p.user)
	switch ssh := p.scheme == "ssh"; {
	case ssh && g.SSHKey.IsZero():
		return "", fmt.Errorf("the Git repository %s is reached by SSH, and there is no key that %s could use (%s.sshKey)", p.text, t.Title(), t)
	case ssh && g.KnownHosts == "":
		return "", fmt.Errorf("%s refuses a Git server whose host key it does not know: name a known_hosts file (%s.knownHosts)", t.Title(), t)
	case ssh, g.Password.IsZero():
		return "", nil
	case user == "":
		return "", fmt.Errorf("the Git repository %s has a password and no user: %s needs both, and with a token nearly any name works (%s.username)", p.text, t.Title(), t)
	}
	return user, nil
}
