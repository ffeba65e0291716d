package k3s

import (
	"cmp"
	_ "embed" // the manifest below
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/kubevip"
)

// KubeVIPManifest is the file name of [KubeVIP]'s manifest in [Server.Manifests] of the first
// server.
const KubeVIPManifest = "kube-vip.yaml"

// kubeVIPManifest is text, not built from Kubernetes' types, because those are five of the
// twelve megabytes of a program that joins a node. It tolerates all taints, because the
// address matters most when nodes are unhealthy.
//
//go:embed kubevip.yaml
var kubeVIPManifest string

// VIP is an address that always belongs to a running server: kube-vip answers ARP for it on
// the server that holds a lease. Every server's TLSSANs must contain it.
type VIP struct {
	Address   netip.Addr
	Interface string // that carries the address; empty: the one of the default route
	Version   string // of kube-vip; default "v1.2.4"
	Image     string // without tag; default ghcr.io/kube-vip/kube-vip
	Services  bool   // also assign addresses to Services of type LoadBalancer; then disable servicelb

	// How long a dead holder keeps the address, and the intervals that depend on it. Default
	// 15 s, 10 s and 2 s; each must be shorter than the one before.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// KubeVIP returns the manifest that runs kube-vip on every server: a DaemonSet with its
// permissions.
func KubeVIP(v VIP) ([]byte, error) {
	if !v.Address.IsValid() || v.Address.IsUnspecified() {
		return nil, errors.New("kube-vip: the address is not set")
	}
	lease := []time.Duration{v.LeaseDuration, v.RenewDeadline, v.RetryPeriod}
	for i, d := range []time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second} {
		if lease[i] == 0 {
			lease[i] = d
		}
	}
	if lease[0] <= lease[1] || lease[1] <= lease[2] || lease[2] < time.Second {
		return nil, fmt.Errorf("kube-vip: lease %s, renew %s, retry %s: each must be shorter than the one before, and at least 1s", lease[0], lease[1], lease[2])
	}
	vars := map[string]string{
		"$SUBNET": strconv.Itoa(v.Address.BitLen()), "$ADDRESS": v.Address.String(), "$SERVICES": strconv.FormatBool(v.Services),
		"$LEASE": seconds(lease[0]), "$RENEW": seconds(lease[1]), "$RETRY": seconds(lease[2]),
		"$IMAGE": cmp.Or(v.Image, kubevip.Image) + ":" + cmp.Or(v.Version, kubevip.Version),
	}
	var pairs []string
	for name, value := range vars {
		text, err := yaml.Marshal(value) // quoted if YAML would read it as another type
		if err != nil {
			return nil, fmt.Errorf("kube-vip: %w", err)
		}
		pairs = append(pairs, name, strings.TrimSuffix(string(text), "\n"))
	}
	carries, err := v.interfaceEnv()
	if err != nil {
		return nil, err
	}
	return []byte(configHead + strings.NewReplacer(append(pairs, "$INTERFACE", carries)...).Replace(kubeVIPManifest)), nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// interfaceEnv is the entry of the environment that names the interface.
func (v VIP) interfaceEnv() (string, error) {
	if v.Interface == "" {
		return "", nil
	}
	text, err := yaml.Marshal(v.Interface)
	if err != nil {
		return "", fmt.Errorf("kube-vip: %w", err)
	}
	return "        - name: vip_interface\n          value: " + string(text), nil
}
