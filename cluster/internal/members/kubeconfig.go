package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	whole "github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/kubeconfig"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// api is the connection to Kubernetes. It uses the kubeconfig of a running server, never the
// file that Up writes for kubectl, which may belong to another cluster.
type api struct {
	mu     sync.Mutex
	config string // the kubeconfig that client was made from
	client *kube.Client
}

// Kube returns the client for the cluster's API.
func (ks *Kubernetes) Kube(ctx context.Context) (*kube.Client, error) {
	ks.api.mu.Lock()
	client := ks.api.client
	ks.api.mu.Unlock()
	if client != nil {
		return client, nil
	}
	_, err := ks.fetchKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	ks.api.mu.Lock()
	defer ks.api.mu.Unlock()
	return ks.api.client, nil
}

// fetchKubeconfig reads the administrator's kubeconfig from the first server that
// has one.
func (ks *Kubernetes) fetchKubeconfig(ctx context.Context) (secret.Value, error) {
	config, err := ks.askSoon(ctx, ks.Distribution.Kubeconfig)
	if errors.As(err, new(*ssh.AuthError)) && ks.VMs {
		return secret.Value{}, fmt.Errorf("%w\nif the cluster is yours: homelab cluster:up asks first and adds a login", err)
	}
	if err != nil {
		return secret.Value{}, err
	}
	ks.api.mu.Lock()
	defer ks.api.mu.Unlock()
	if ks.api.client != nil && ks.api.config == config.Reveal() {
		return config, nil
	}
	about := kube.Config{Kubeconfig: []byte(config.Reveal()), Dial: ks.Nodes.DialTo, Wrap: ks.KubeWrap}
	if ks.Spec.NVIDIA.Stack == spec.StackDRA {
		about.Devices = addon.DRADevices()
	}
	client, err := kube.New(about)
	if err != nil {
		return secret.Value{}, err
	}
	ks.api.client, ks.api.config = client, config.Reveal()
	return config, nil
}

// SetClient sets the client for the API, which was made from that kubeconfig. If client is nil, the
// next caller of Kube asks the servers.
func (ks *Kubernetes) SetClient(client *kube.Client, kubeconfig string) {
	ks.api.mu.Lock()
	defer ks.api.mu.Unlock()
	ks.api.client, ks.api.config = client, kubeconfig
}

// question is asked of a server, by its name.
type question func(ctx context.Context, server string) (secret.Value, error)

// errAbsent means that the machine of a server did not exist when this run started.
var errAbsent = errors.New("its machine was made just now")

// askTime limits how long to ask one server for something that another may have too.
const askTime = 20 * time.Second

func (ks *Kubernetes) askServer(ctx context.Context, server string, ask question) (secret.Value, error) {
	if ks.Nodes.Observation(server).Absent.Load() {
		return secret.Value{}, errAbsent
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := ks.CheckOwnServer(ctx, server); err != nil {
		return secret.Value{}, err
	}
	return ask(ctx, server)
}

// CheckKubeconfigWritable checks, before anything changes, that the kubeconfig can be written to its path.
func (ks *Kubernetes) CheckKubeconfigWritable(context.Context) error {
	return whole.Check(ks.Kubeconfig, 0o600)
}

// KubeconfigStep writes a kubeconfig for kubectl, mode 0600, and checks that a server has the
// administrator's kubeconfig.
func (ks *Kubernetes) KubeconfigStep() *converge.Resource[kubeconfigs] {
	path := ks.Kubeconfig
	return &converge.Resource[kubeconfigs]{
		ID:      "kubeconfig",
		Local:   true,
		Observe: ks.kubeconfigs,
		Diff: func(s kubeconfigs) converge.Diff {
			switch {
			case s.have == nil:
				return converge.Diff{{Want: path, Effect: converge.Update}}
			case !bytes.Equal(s.have, s.want):
				return converge.Diff{{Have: "of an earlier cluster or address", Want: path, Effect: converge.Update}}
			case s.keys:
				return converge.Diff{{Want: ks.Hosts.Path(), Effect: converge.Update}}
			}
			return nil
		},
		Apply: func(_ context.Context, s kubeconfigs) error {
			ks.memory.Load().wrote.Store(true) // the next run writes what this run learns from now on
			return errors.Join(whole.WriteFile(path, s.want, 0o600), ks.Hosts.Flush())
		},
	}
}

// kubeconfigs are that of the file on this machine, nil if it must be written, and the wanted one.
type kubeconfigs struct {
	have, want []byte
	keys       bool // host keys are not written yet
}

func (ks *Kubernetes) kubeconfigs(ctx context.Context) (s kubeconfigs, err error) {
	config, err := ks.fetchKubeconfig(ctx)
	if err != nil {
		return s, err
	}
	s.want, err = kubeconfig.Rewrite([]byte(config.Reveal()),
		kubeconfig.Access{Server: distribution.APIURL(ks.Spec), Cluster: ks.Spec.Name, ProxyURL: ks.ProxyURL})
	if err != nil {
		return s, err
	}
	s.keys = !ks.memory.Load().wrote.Load() && ks.Hosts.Unsaved()
	info, err := os.Stat(ks.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm() != 0o600 {
		return s, nil
	}
	if err == nil {
		s.have, err = os.ReadFile(ks.Kubeconfig)
	}
	return s, err
}
