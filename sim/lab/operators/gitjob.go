package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/memory"
	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// polling is the default polling interval of a repository.
const polling = 15 * time.Second

// repoSeen is what was read of a GitRepo.
type repoSeen struct {
	generation int64
	at         time.Time
	commit     string
	bundles    []fleetread.Bundle
	pollErr    error // why the repository could not be read
	jobErr     error // why it could not be made into bundles
}

// gitJob simulates Fleet's gitjob, controller and agent together: it reads each GitRepo with
// Git, turns it into bundles as Fleet does, and deploys them with Helm to the cluster that it
// runs in, in the order of dependsOn.
func gitJob(ctx context.Context, i *instance) (time.Duration, error) {
	g, ok := i.kept.(*deployer)
	if !ok {
		var err error
		if g, err = newDeployer(ctx, i); err != nil {
			return 0, err
		}
		i.kept = g
	}
	list, err := all[api.GitRepo](i, gitRepos())
	if err != nil {
		return 0, err
	}
	again := time.Duration(0)
	there := map[uid]bool{}
	for _, repo := range list {
		there[repo.UID] = true
		every := polling
		if repo.Spec.PollingInterval != nil && repo.Spec.PollingInterval.Duration > 0 {
			every = repo.Spec.PollingInterval.Duration
		}
		g.read(ctx, repo, every)
		if err := g.reconcile(ctx, repo); err != nil {
			return 0, err
		}
		if again == 0 || every < again {
			again = every
		}
	}
	if err := g.removeOthers(ctx, list); err != nil {
		return 0, err
	}
	if g.busy() { // check waiting bundles often
		again = time.Second
	}
	return again, nil
}

// read reads a repository when it is due, or when its GitRepo has changed.
func (g *deployer) read(ctx context.Context, repo *api.GitRepo, every time.Duration) {
	seen := g.repos[repo.UID]
	if seen == nil {
		seen = &repoSeen{}
		g.repos[repo.UID] = seen
	}
	if seen.generation == repo.Generation && time.Since(seen.at) < every {
		return
	}
	changed := seen.generation != repo.Generation
	seen.generation, seen.at = repo.Generation, time.Now()
	commit, files, err := g.fetch(ctx, repo)
	if seen.pollErr = err; err != nil {
		return
	}
	if commit == seen.commit && !changed {
		return
	}
	seen.commit = commit
	bundles, err := bundlesOf(repo, files)
	if seen.jobErr = err; !seen.blocked() {
		seen.bundles = bundles
	}
}

// blocked reports whether what is deployed stays as it is.
func (s *repoSeen) blocked() bool {
	return s.jobErr != nil && !errors.As(s.jobErr, new(*fleetread.Nothing))
}

// bundlesOf turns a repository into bundles, all or none.
func bundlesOf(repo *api.GitRepo, files fs.FS) ([]fleetread.Bundle, error) {
	if len(repo.Spec.Targets) > 0 || repo.Spec.TargetNamespace != "" || repo.Spec.ServiceAccount != "" {
		return nil, &fleetread.Unknown{Where: "GitRepo " + repo.Name, What: "targets, targetNamespace, serviceAccount"}
	}
	source := fleetread.Source{Name: repo.Name, Paths: repo.Spec.Paths}
	for _, b := range repo.Spec.Bundles {
		source.Bundles = append(source.Bundles, fleetread.Driven{Base: b.Base, Options: b.Options})
	}
	bundles, err := fleetread.Read(files, source)
	if err != nil {
		return nil, err
	}
	for _, b := range bundles {
		if _, wrong := b.Release(); wrong != nil {
			err = errors.Join(err, wrong)
		}
	}
	return bundles, err
}

// fetch reads the newest commit of a branch into memory.
func (g *deployer) fetch(ctx context.Context, repo *api.GitRepo) (string, fs.FS, error) {
	auth, err := g.credentials(ctx, repo)
	if err != nil {
		return "", nil, err
	}
	return clone(ctx, &git.CloneOptions{
		URL: repo.Spec.Repo, Auth: auth, CABundle: repo.Spec.CABundle, InsecureSkipTLS: repo.Spec.InsecureSkipTLSverify,
		ReferenceName: plumbing.NewBranchReferenceName(cmp.Or(repo.Spec.Branch, "master")),
	})
}

// clone reads the newest commit of what the options name into memory.
func clone(ctx context.Context, from *git.CloneOptions) (commit string, files fs.FS, err error) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from.Depth, from.SingleBranch, from.Tags = 1, true, git.NoTags
	r, err := git.CloneContext(ctx, memory.NewStorage(), nil, from)
	if err != nil {
		return "", nil, err
	}
	head, err := r.Head()
	if err != nil {
		return "", nil, err
	}
	newest, err := r.CommitObject(head.Hash())
	if err != nil {
		return "", nil, err
	}
	tree, err := newest.Tree()
	if err != nil {
		return "", nil, err
	}
	read := fstest.MapFS{}
	err = tree.Files().ForEach(func(f *gitobject.File) error {
		reader, err := f.Reader()
		if err != nil {
			return err
		}
		defer reader.Close()
		data, err := io.ReadAll(reader)
		file := &fstest.MapFile{Data: data, Mode: 0o644}
		if f.Mode == filemode.Symlink {
			file.Mode |= fs.ModeSymlink
		}
		read[f.Name] = file
		return err
	})
	return head.Hash().String(), read, err
}

// credentials returns those of the Secret that the GitRepo names.
func (g *deployer) credentials(ctx context.Context, repo *api.GitRepo) (transport.AuthMethod, error) {
	name := repo.Spec.ClientSecretName
	if name == "" {
		return nil, nil
	}
	s, err := g.Client.CoreV1().Secrets(repo.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to look up HelmSecretName, error: %w", err)
	}
	if s.Type == corev1.SecretTypeBasicAuth {
		return &http.BasicAuth{Username: string(s.Data[corev1.BasicAuthUsernameKey]), Password: string(s.Data[corev1.BasicAuthPasswordKey])}, nil
	}
	keys, err := gitssh.NewPublicKeys("git", s.Data[corev1.SSHAuthPrivateKey], "")
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	keys.HostKeyCallback, err = hostKeys(s.Data["known_hosts"])
	return keys, err
}

// hostKeys trusts the hosts of a known_hosts file; none without one.
func hostKeys(file []byte) (ssh.HostKeyCallback, error) {
	path, err := temporary(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(path) }()
	return knownhosts.New(path)
}

// setConditions merges several conditions into a list.
func setConditions(obj *unstructured.Unstructured, set ...[4]string) []any {
	now := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": obj.GetGeneration()}, "status": obj.Object["status"]}}
	var list []any
	for _, c := range set {
		list = object.Conditions(now, false, c[0], c[1], c[2], c[3])
		now.Object["status"] = map[string]any{"conditions": list}
	}
	return list
}
