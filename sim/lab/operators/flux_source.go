package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sourceSeen is when and as what a repository was last read.
type sourceSeen struct {
	generation int64
	at         time.Time
}

// sourceController reads Git repositories, and finds every Helm repository in order: their charts are
// the lab's own.
func sourceController(ctx context.Context, i *instance) (time.Duration, error) {
	seen, ok := i.kept.(map[uid]sourceSeen)
	if !ok {
		seen = map[uid]sourceSeen{}
		i.kept = seen
	}
	again := time.Duration(0)
	list, err := all[unstructured.Unstructured](i, gitRepositories())
	if err != nil {
		return 0, err
	}
	for _, u := range list {
		repo, err := strictly[sourcev1.GitRepository](u)
		if err == nil {
			err = notPlayed(repo.Spec, "URL", "SecretRef", "Interval", "Timeout", "Reference", "Suspend")
		}
		if err != nil {
			if err := i.ready(ctx, gitRepositories(), u, "False", "GitOperationFailed", err.Error(), nil); err != nil {
				return 0, err
			}
			continue
		}
		every := repo.Spec.Interval.Duration
		if again == 0 || every < again {
			again = every
		}
		last := seen[u.GetUID()]
		if repo.Spec.Suspend || last.generation == u.GetGeneration() && time.Since(last.at) < every {
			continue
		}
		seen[u.GetUID()] = sourceSeen{u.GetGeneration(), time.Now()}
		if err := i.readSource(ctx, u, repo); err != nil {
			return 0, err
		}
	}
	charts, err := all[unstructured.Unstructured](i, helmRepositories())
	if err != nil {
		return 0, err
	}
	for _, u := range charts {
		if repo, err := strictly[sourcev1.HelmRepository](u); err != nil || repo.Spec.Type == sourcev1.HelmRepositoryTypeOCI || repo.Spec.Suspend {
			continue // one of OCI has no state
		}
		if err := i.ready(ctx, helmRepositories(), u, "True", "Succeeded", "stored artifact: the charts of the lab", nil); err != nil {
			return 0, err
		}
	}
	return again, nil
}

// readSource reads a repository, and says the result.
func (i *instance) readSource(ctx context.Context, u *unstructured.Unstructured, repo *sourcev1.GitRepository) error {
	failed := func(err error) error {
		return i.ready(ctx, gitRepositories(), u, "False", "GitOperationFailed", "failed to checkout and determine revision: "+err.Error(), nil)
	}
	from, err := i.sourceOf(ctx, repo)
	if err != nil {
		return failed(err)
	}
	commit, files, err := clone(ctx, from)
	if err != nil {
		return failed(err)
	}
	revision := from.ReferenceName.Short() + "@sha1:" + commit
	i.artifacts.put(u.GetNamespace()+"/"+u.GetName()+"/"+revision, files)
	artifact := map[string]any{"revision": revision, "path": "gitrepository/" + u.GetNamespace() + "/" + u.GetName() + "/" + commit + ".tar.gz",
		"url": "http://source-controller.flux-system.svc.cluster.local./gitrepository/" + u.GetNamespace() + "/" + u.GetName() + "/" + commit + ".tar.gz"}
	if old, _, _ := unstructured.NestedString(u.Object, "status", "artifact", "revision"); old != revision {
		artifact["lastUpdateTime"] = metav1.Now().UTC().Format(time.RFC3339)
	}
	return i.ready(ctx, gitRepositories(), u, "True", "Succeeded", "stored artifact for revision '"+revision+"'", map[string]any{"artifact": artifact})
}

// sourceOf says what is read, and with which credentials (source-controller docs/spec/v1/gitrepositories.md,
// Secret reference).
func (i *instance) sourceOf(ctx context.Context, repo *sourcev1.GitRepository) (*git.CloneOptions, error) {
	branch := "master"
	if ref := repo.Spec.Reference; ref != nil {
		if err := notPlayed(*ref, "Branch"); err != nil {
			return nil, err
		}
		branch = cmp.Or(ref.Branch, branch)
	}
	out := &git.CloneOptions{URL: repo.Spec.URL, ReferenceName: plumbing.NewBranchReferenceName(branch)}
	if repo.Spec.SecretRef == nil {
		return out, nil
	}
	name := repo.Spec.SecretRef.Name
	s, err := i.Client.CoreV1().Secrets(repo.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get secret '%s/%s': %w", repo.Namespace, name, err)
	}
	out.CABundle = s.Data["ca.crt"]
	out.Auth, err = gitAuth(repo.Spec.URL, s.Data)
	return out, err
}

func gitAuth(url string, data map[string][]byte) (transport.AuthMethod, error) {
	if !strings.HasPrefix(url, "ssh://") {
		if len(data["username"]) == 0 && len(data["password"]) == 0 {
			return nil, nil
		}
		return &http.BasicAuth{Username: string(data["username"]), Password: string(data["password"])}, nil
	}
	if len(data["identity"]) == 0 || len(data["known_hosts"]) == 0 {
		return nil, errors.New("invalid auth option: 'identity' and 'known_hosts' are required")
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(url, "ssh://"), "@")
	keys, err := gitssh.NewPublicKeys(user, data["identity"], string(data["password"]))
	if err != nil {
		return nil, err
	}
	keys.HostKeyCallback, err = hostKeys(data["known_hosts"])
	return keys, err
}
