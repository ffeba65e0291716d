package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
	whole "github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// api is the connection to Kubernetes. It is made from the kubeconfig of a living
// server, never from the file that we leave for kubectl: that may be of another
// cluster.
type api struct {
	mu     sync.Mutex
	config string // what client was made of
	client *kube.Client

	charts   *chart.Client // of chartsOf
	chartsOf *kube.Client
}

// kube returns the client for the cluster's API.
func (c *Cluster) kube(ctx context.Context) (*kube.Client, error) {
	c.api.mu.Lock()
	client := c.api.client
	c.api.mu.Unlock()
	if client != nil {
		return client, nil
	}
	_, err := c.fetchKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	return c.api.client, nil
}

// fetchKubeconfig reads the administrator's kubeconfig from the first server that
// has one.
func (c *Cluster) fetchKubeconfig(ctx context.Context) (secret.Value, error) {
	read := func(ctx context.Context, r remote.Runner) (secret.Value, error) {
		return k3s.Kubeconfig(ctx, r, c.spec.url(), c.spec.Name)
	}
	config, err := c.token(ctx, "", read)
	if errors.As(err, new(*ssh.AuthError)) && c.Proxmox != nil {
		return secret.Value{}, fmt.Errorf("%w\nif the cluster is yours: go tool mage cluster:up adds a login, and asks before", err)
	}
	if err != nil {
		return secret.Value{}, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.api.client != nil && c.api.config == config.Reveal() {
		return config, nil
	}
	client, err := kube.New(kube.Config{Kubeconfig: []byte(config.Reveal()), Dial: c.dial, Wrap: c.KubeWrap})
	if err != nil {
		return secret.Value{}, err
	}
	c.api.client, c.api.config = client, config.Reveal()
	return config, nil
}

// tokenReader reads a secret from a server.
type tokenReader func(ctx context.Context, r remote.Runner) (secret.Value, error)

// errAbsent is a server whose machine was not there when this run began.
var errAbsent = errors.New("its machine was made just now")

// askTime bounds how long one server is asked for what another may have too.
const askTime = 20 * time.Second

func (c *Cluster) tokenOf(ctx context.Context, server string, read tokenReader) (secret.Value, error) {
	if c.met(ctx, server).absent.Load() {
		return secret.Value{}, errAbsent
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := c.ownServer(ctx, server); err != nil {
		return secret.Value{}, err
	}
	return read(ctx, c.root(server))
}

// canKeep sees, before anything is changed, that the kubeconfig may be put where it will be.
func (c *Cluster) canKeep(context.Context) error { return whole.Check(c.KubeconfigPath(), 0o600) }

// kubeconfigStep leaves a kubeconfig for kubectl, mode 0600, and sees that the API's
// administrator can be asked for one.
func (c *Cluster) kubeconfigStep() *converge.Resource[[]byte] {
	path, kept := c.KubeconfigPath(), false
	var want []byte
	return &converge.Resource[[]byte]{
		ID:    "kubeconfig",
		Local: true,
		Observe: func(ctx context.Context) ([]byte, error) {
			config, err := c.fetchKubeconfig(ctx)
			if err != nil {
				return nil, err
			}
			want, err = k3s.RewriteKubeconfig([]byte(config.Reveal()), k3s.Access{Server: c.spec.url(), Cluster: c.spec.Name, ProxyURL: c.ProxyURL})
			if err != nil {
				return nil, err
			}
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm() != 0o600 {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return os.ReadFile(path)
		},
		Diff: func(have []byte) drift.Diff {
			switch {
			case have == nil:
				return drift.Diff{{Want: path, Effect: drift.Update}}
			case !bytes.Equal(have, want):
				return drift.Diff{{Have: "of an earlier cluster or address", Want: path, Effect: drift.Update}}
			case !kept && c.hosts.Unsaved():
				return drift.Diff{{Want: c.hosts.Path(), Effect: drift.Update}}
			}
			return nil
		},
		Apply: func(context.Context, []byte) error {
			kept = true // what is learnt from now on is for the next
			return errors.Join(whole.Whole(path, want, 0o600), c.Keep())
		},
	}
}

// nodeStep keeps a node Ready, with the labels and taints of the file, and takes
// away those that the file no longer has.
func (c *Cluster) nodeStep(n Node) *converge.Resource[*kube.Node] {
	marks := c.marks(n)
	return &converge.Resource[*kube.Node]{
		ID:      "node/" + n.Name,
		Observe: func(ctx context.Context) (*kube.Node, error) { return c.observeNode(ctx, n.Name) },
		Diff: func(have *kube.Node) drift.Diff {
			if have == nil {
				return drift.Diff{{Have: "not registered", Want: "Ready", Effect: drift.Create}}
			}
			d := marks.Diff(*have)
			if !have.Ready {
				d = append(d, drift.Field{Path: "status", Have: "not ready: " + have.Reason, Want: "Ready", Effect: drift.Create})
			}
			if have.Cordoned {
				d = append(d, drift.Field{Path: "scheduling", Have: "cordoned", Want: "allowed", Effect: drift.Update})
			}
			return append(d, drift.Compare("version", have.Version, c.spec.K3s.Version, drift.Restart)...)
		},
		Costs: c.costsOfMarks(n, marks),
		Apply: func(ctx context.Context, have *kube.Node) error {
			if have == nil {
				if err := c.waitRegistered(ctx, n); err != nil {
					return err
				}
			}
			return c.settleNode(ctx, n.Name, marks)
		},
		Settle: readyTime,
		Poll:   lookEvery,
	}
}

// readyTime is how long a node may take from having joined to being Ready.
const readyTime = 5 * time.Minute

func (c *Cluster) observeNode(ctx context.Context, name string) (*kube.Node, error) {
	client, err := c.kube(ctx)
	if err != nil {
		return nil, err
	}
	have, err := client.Node(ctx, name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	return &have, err
}

func (c *Cluster) marks(n Node) kube.Marks {
	m := kube.Marks{Labels: c.spec.labels(n)}
	for _, t := range n.Taints {
		m.Taints = append(m.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return m
}

func (c *Cluster) settleNode(ctx context.Context, name string, marks kube.Marks) error {
	client, err := c.kube(ctx)
	if err != nil {
		return err
	}
	if err := client.Mark(ctx, name, marks); err != nil {
		return err
	}
	return client.Uncordon(ctx, name)
}

// drain empties a node and returns what it was before, nil if the cluster does not
// have it.
func (c *Cluster) drain(ctx context.Context, node string) (*kube.Node, error) {
	was, err := c.observeNode(ctx, node)
	if err != nil || was == nil {
		return nil, err
	}
	client, err := c.kube(ctx)
	if err != nil {
		return nil, err
	}
	progress.Say(ctx, "draining %s", node)
	return was, client.Drain(ctx, node, kube.Drain{DeleteEmptyDir: true, Force: true})
}

func (c *Cluster) deleteNode(ctx context.Context, node string) error {
	client, err := c.kube(ctx)
	if err != nil {
		return err
	}
	return client.DeleteNode(ctx, node)
}

// waitRegistered waits until a kubelet has introduced itself. It does so when it starts
// and never again, so K3s is started again where its Node does not come: somebody may
// have deleted it.
func (c *Cluster) waitRegistered(ctx context.Context, n Node) error {
	unit := k3s.RoleServer.Unit()
	if n.Role == Agent {
		unit = k3s.RoleAgent.Unit()
	}
	err := c.registered(ctx, n, wait.Rule{Limit: introduced})
	if err == nil || ctx.Err() != nil {
		return err
	}
	done, err := c.turnOf(ctx, n, c.serversAway)
	if err != nil {
		return err
	}
	defer done()
	progress.Say(ctx, "starting %s anew on %s: its Node is gone", unit, n.Name)
	if err := remote.Run(ctx, c.root(n.Name), "systemctl", "restart", unit); err != nil {
		return err
	}
	return c.registered(ctx, n, wait.Rule{
		Limit: readyTime, Late: n.Name + " did not register with the cluster, though its K3s was started anew,",
		Hint: fmt.Sprintf("journalctl -u %s there says why; go tool mage node:replace -node=%s makes the machine anew", unit, n.Name),
	})
}

// introduced is how long a kubelet that has just started may take to register.
const introduced = time.Minute

// registered waits until a cluster has a node.
func (c *Cluster) registered(ctx context.Context, n Node, r wait.Rule) error {
	r.What = "waiting for " + n.Name + " to register"
	return c.until(ctx, r, func(ctx context.Context) (string, error) {
		have, err := c.observeNode(ctx, n.Name)
		if err != nil || have != nil {
			return "", err
		}
		return "the cluster has no such node", nil
	})
}

// hasDriver reports whether a node's driver is ours to look after.
func (c *Cluster) hasDriver(n Node) bool {
	return n.GPUs.Count > 0 && c.spec.installsDriver() && c.spec.NVIDIA.Stack != StackNone
}

// hasPlugin reports whether GPUs are made allocatable by us.
func (c *Cluster) hasPlugin() bool {
	return len(c.spec.GPUNodes()) > 0 && c.spec.NVIDIA.Stack == StackDevicePlugin
}

// allocatableStep waits until Kubernetes can give away all of a node's GPUs.
func (c *Cluster) allocatableStep(n Node) *converge.Resource[int64] {
	want := c.allocatable(n)
	return &converge.Resource[int64]{
		ID: "allocatable/" + n.Name,
		Observe: func(ctx context.Context) (int64, error) {
			have, err := c.observeNode(ctx, n.Name)
			if err != nil || have == nil {
				return 0, err
			}
			return have.Count(string(nvidia.Resource)), nil
		},
		Diff: func(have int64) drift.Diff {
			if have == want {
				return nil
			}
			return drift.Diff{{
				Path: "GPUs", Have: fmt.Sprint(have), Want: fmt.Sprintf("%d allocatable", want), Effect: drift.Create,
				Note: "driver, container toolkit and device plugin must all be there",
			}}
		},
		Settle: readyTime,
		Poll:   lookEvery,
	}
}

// allocatable is how many GPUs a node should offer: its cards, times how many pods
// share one.
func (c *Cluster) allocatable(n Node) int64 {
	count := int64(n.GPUs.Count)
	if n.GPUs.Sharing.shared() {
		count *= int64(max(1, n.GPUs.Sharing.Replicas))
	}
	return count
}

// shared reports whether several pods use one GPU.
func (s Sharing) shared() bool { return s.Strategy == SharingTimeSlicing || s.Strategy == SharingMPS }
