package kubeadm

import (
	"context"
	"net/netip"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// virtual is the address that kube-vip gives to one server.
type virtual struct {
	address netip.Addr
	holder  *node
	free    time.Time // from when on another one may take it: a holder that is gone keeps its lease
}

// retryPeriod and leaseDuration are kube-vip's with a lease of 15/10/2 s.
const (
	retryPeriod   = 2 * time.Second
	leaseDuration = 15 * time.Second
)

// kubeVIP is the static pod on a server for as long as kubelet runs.
func (n *node) kubeVIP(ctx context.Context) {
	for {
		if address, ok := n.wantsVIP(); ok && n.answers() {
			n.cluster.holdVIP(n, address)
		} else {
			n.cluster.releaseVIP(n, 0)
		}
		if !n.sys.Pause(ctx, retryPeriod) {
			n.cluster.releaseVIP(n, n.sys.Scale(leaseDuration))
			return
		}
	}
}

// holdVIP takes the address, if nobody has it.
func (c *cluster) holdVIP(n *node, address netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.vip
	if v.holder == nil && !time.Now().Before(v.free) {
		v.holder, v.address = n, address
		c.net.Register(address, n.sys.Answers())
	}
}

// releaseVIP gives the address up if a server has it.
func (c *cluster) releaseVIP(n *node, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := &c.vip; v.holder == n {
		network.Release(c.net, v.address, n.sys.Answers())
		v.holder, v.free = nil, time.Now().Add(after)
	}
}

// staticPod is what is played of kube-vip's manifest.
type staticPod struct {
	Spec struct {
		HostNetwork bool `yaml:"hostNetwork"`
		Containers  []struct {
			Env []struct {
				Name  string `yaml:"name"`
				Value string `yaml:"value"`
			} `yaml:"env"`
		} `yaml:"containers"`
		Volumes []struct {
			HostPath struct {
				Path string `yaml:"path"`
				Type string `yaml:"type"`
			} `yaml:"hostPath"`
		} `yaml:"volumes"`
	} `yaml:"spec"`
}

// wantsVIP reports whether kube-vip runs there and can hold the lease of an address: it must ask the API server of its
// own machine, since the address in its login does not exist yet (pkg/manager/manager.go of v1.2.2), with a login that
// has rights.
func (n *node) wantsVIP() (netip.Addr, bool) {
	var pod staticPod
	v := n.sys.Root()
	data, err := v.ReadFile(manifests + "/kube-vip.yaml")
	if err != nil || yaml.Unmarshal(data, &pod) != nil || len(pod.Spec.Containers) != 1 || len(pod.Spec.Volumes) != 1 || !pod.Spec.HostNetwork {
		return netip.Addr{}, false
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	login := pod.Spec.Volumes[0].HostPath.Path
	if _, err := v.Stat(login); err != nil || login == etc+"/admin.conf" && !n.cluster.isBound() {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(env["address"])
	own, failed := netip.ParseAddrPort(env["kubernetes_addr"])
	return address, err == nil && failed == nil && own.Addr() == n.sys.Address() && env["cp_enable"] == "true" && env["vip_arp"] == "true"
}

func (c *cluster) isBound() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound
}

// bind gives admin.conf its rights, by way of super-admin.conf and at the endpoint, as releases before v1.36 do
// (phases/kubeconfig, EnsureAdminClusterRoleBinding).
func (c *cluster) bind(ctx context.Context, s *machine.System, endpoint string) error {
	var err error
	for range 12 {
		if _, err = reach(ctx, s, endpoint); err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.bound = true
			return nil
		}
		if !s.Pause(ctx, retryTime) {
			return ctx.Err()
		}
	}
	return err
}
