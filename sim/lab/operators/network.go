package operators

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func services() kind   { return kind{"", "v1", "services"} }
func nodes() kind      { return kind{"", "v1", "nodes"} }
func pools() kind      { return kind{"metallb.io", "v1beta1", "ipaddresspools"} }
func l2() kind         { return kind{"metallb.io", "v1beta1", "l2advertisements"} }
func ciliumPool() kind { return kind{"cilium.io", "v2", "ciliumloadbalancerippools"} }

// builtinPrograms is what K3s does itself, by the names of its --disable.
func builtinPrograms() []program {
	return []program{
		{name: "servicelb", watch: []kind{services(), nodes()}, sync: serviceLB},
		{name: "traefik", watch: []kind{{"helm.cattle.io", "v1", "helmchartconfigs"}}, sync: packagedTraefik},
		{name: "webhooks", watch: []kind{validating(), mutating()}, sync: trustWebhooks},
	}
}

func networkPrograms() []program {
	return []program{
		{name: "metallb-controller", image: "metallb/controller", watch: []kind{services(), pools(), l2()}, sync: metalLB},
		{name: "cilium-operator", image: "cilium/operator-generic", watch: []kind{services()}, sync: ciliumOperator},
		{name: "cilium-gateway", image: "cilium/operator-generic", watch: []kind{services(), secrets(), gateways(), gatewayClasses(), routes()}, sync: ciliumGateway},
		{name: "traefik", image: "library-traefik", watch: []kind{services(), ingresses(), ingressClasses(), gateways(), gatewayClasses(), routes()}, sync: traefik},
	}
}

// serviceLB simulates K3s' load balancer: a Service has the addresses of the nodes on which
// its ports are free. The older Service has a port first.
func serviceLB(ctx context.Context, i *instance) (time.Duration, error) {
	list, err := balanced(i, "")
	if err != nil {
		return 0, err
	}
	hosts, err := i.openNodes()
	if err != nil {
		return 0, err
	}
	taken := map[int32]string{}
	for _, s := range list {
		free := true
		for _, p := range s.Spec.Ports {
			name := s.Namespace + "/" + s.Name
			if owner := cmp.Or(taken[p.Port], name); owner != name {
				i.events.Eventf(s, corev1.EventTypeWarning, "PortInUse", "port %d of every node belongs to service %s: the pods svclb-%s stay Pending", p.Port, owner, s.Name)
				free = false
			}
		}
		if !free {
			continue
		}
		for _, p := range s.Spec.Ports {
			taken[p.Port] = s.Namespace + "/" + s.Name
		}
		if err := i.giveAddresses(ctx, s, ofFamilies(s, hosts)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// balanced returns the Services of type LoadBalancer, oldest first.
func balanced(i *instance, class string) ([]*corev1.Service, error) {
	list, err := all[corev1.Service](i, services())
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s *corev1.Service) bool {
		mine := s.Spec.LoadBalancerClass == nil && class == "" || s.Spec.LoadBalancerClass != nil && *s.Spec.LoadBalancerClass == class
		return s.Spec.Type != corev1.ServiceTypeLoadBalancer || !mine || s.DeletionTimestamp != nil
	})
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return list, nil
}

// openNodes are the addresses of Ready nodes where the pods of K3s' load balancer go:
// they tolerate no taint but those of a control plane.
func (i *instance) openNodes() ([]string, error) {
	list, err := all[corev1.Node](i, nodes())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range list {
		closed := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != "CriticalAddonsOnly" && !strings.HasPrefix(t.Key, "node-role.kubernetes.io/")
		})
		up := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if closed || !up {
			continue
		}
		of := map[corev1.NodeAddressType][]string{}
		for _, a := range n.Status.Addresses {
			of[a.Type] = append(of[a.Type], a.Address)
		}
		if external := of[corev1.NodeExternalIP]; len(external) > 0 {
			out = append(out, external...)
		} else {
			out = append(out, of[corev1.NodeInternalIP]...)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, _ := netip.ParseAddr(a)
		y, _ := netip.ParseAddr(b)
		return x.Compare(y)
	})
	return out, nil
}

// ofFamilies are the addresses of a Service's families, in their order (filterByIPFamily of K3s' servicelb.go).
func ofFamilies(s *corev1.Service, addresses []string) []string {
	var out []string
	for _, family := range s.Spec.IPFamilies {
		for _, a := range addresses {
			if strings.Contains(a, ":") == (family == corev1.IPv6Protocol) {
				out = append(out, a)
			}
		}
	}
	return out
}

// giveAddresses writes a Service's addresses, if they differ.
func (i *instance) giveAddresses(ctx context.Context, s *corev1.Service, addresses []string) error {
	want := make([]corev1.LoadBalancerIngress, len(addresses))
	mode := corev1.LoadBalancerIPModeVIP
	for n, a := range addresses {
		want[n] = corev1.LoadBalancerIngress{IP: a, IPMode: &mode}
	}
	same := slices.EqualFunc(s.Status.LoadBalancer.Ingress, want, func(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP })
	if same {
		return nil
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = want
	if _, err := i.Client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// addressPool is where a load balancer takes addresses from.
type addressPool struct {
	name   string
	ranges [][2]netip.Addr
	auto   bool // assigns to Services that do not request one
	buggy  bool // addresses that end in .0 and .255 too
	only   func(*corev1.Service) bool
}

func (p addressPool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(r [2]netip.Addr) bool { return a.Compare(r[0]) >= 0 && a.Compare(r[1]) <= 0 })
}

// first is the first address that is free.
func (p addressPool) first(taken map[netip.Addr]bool) (netip.Addr, bool) {
	for _, r := range p.ranges {
		for a := r[0]; a.IsValid() && a.Compare(r[1]) <= 0; a = a.Next() {
			if last := a.AsSlice()[len(a.AsSlice())-1]; !p.buggy && (last == 0 || last == 255) {
				continue
			}
			if !taken[a] {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// parseRange reads a-b or a prefix.
func parseRange(s string) ([2]netip.Addr, error) {
	if from, to, ok := strings.Cut(s, "-"); ok {
		a, errA := netip.ParseAddr(strings.TrimSpace(from))
		b, errB := netip.ParseAddr(strings.TrimSpace(to))
		if errA != nil || errB != nil || b.Less(a) {
			return [2]netip.Addr{}, fmt.Errorf("invalid IP range %q", s)
		}
		return [2]netip.Addr{a, b}, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return [2]netip.Addr{}, fmt.Errorf("invalid CIDR %q", s)
	}
	last := p.Masked().Addr()
	for next := last; next.IsValid() && p.Contains(next); next = next.Next() {
		last = next
	}
	return [2]netip.Addr{p.Masked().Addr(), last}, nil
}

// metalLB simulates MetalLB's controller; without an L2Advertisement for the pool it still
// assigns an address, which is then not reachable.
func metalLB(ctx context.Context, i *instance) (time.Duration, error) {
	if err := i.memberlist(ctx); err != nil {
		return 0, err
	}
	objs, err := all[unstructured.Unstructured](i, pools())
	if err != nil {
		return 0, err
	}
	var from []addressPool
	for _, o := range objs {
		if o.GetNamespace() != i.pod.Namespace { // it reads its own namespace only
			continue
		}
		p := addressPool{name: o.GetName(), auto: true, buggy: true}
		if auto, ok, _ := unstructured.NestedBool(o.Object, "spec", "autoAssign"); ok {
			p.auto = auto
		}
		if avoid, _, _ := unstructured.NestedBool(o.Object, "spec", "avoidBuggyIPs"); avoid {
			p.buggy = false
		}
		list, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "addresses")
		for _, s := range list {
			r, err := parseRange(s)
			if err != nil {
				i.events.Eventf(o, corev1.EventTypeWarning, "configError", "%v", err)
				continue
			}
			p.ranges = append(p.ranges, r)
		}
		from = append(from, p)
	}
	slices.SortFunc(from, func(a, b addressPool) int { return cmp.Compare(a.name, b.name) })
	return 0, i.assign(ctx, from, i.argument("lb-class"), "metallb.io/loadBalancerIPs", "metallb.io/address-pool")
}

// memberlist makes the Secret with which the speakers find each other; their pods
// wait for it.
func (i *instance) memberlist(ctx context.Context) error {
	name := i.environment("METALLB_ML_SECRET_NAME")
	if name == "" || i.kept != nil {
		return nil
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.pod.Namespace, Name: name}, StringData: map[string]string{"secretkey": rand.Text()}}
	_, err := i.Client.CoreV1().Secrets(i.pod.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	i.kept = true
	return nil
}

// assign assigns an address to each Service that waits for one. asked is the annotation for
// particular addresses, named the one for a pool.
func (i *instance) assign(ctx context.Context, from []addressPool, class, asked, named string) error {
	list, err := balanced(i, class)
	if err != nil {
		return err
	}
	taken := map[netip.Addr]bool{}
	for _, s := range list {
		for _, in := range s.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(in.IP); err == nil {
				taken[a] = true
			}
		}
	}
	for _, s := range list {
		want := cmp.Or(s.Annotations[asked], s.Spec.LoadBalancerIP)
		if have := s.Status.LoadBalancer.Ingress; len(have) > 0 && (want == "" && fromPools(from, s, have[0].IP) || have[0].IP == want) {
			continue
		}
		address, why := choose(from, s, taken, want, s.Annotations[named])
		if why != "" {
			i.events.Eventf(s, corev1.EventTypeWarning, "AllocationFailed", "Failed to allocate IP for %q: %s", s.Namespace+"/"+s.Name, why)
			continue
		}
		taken[address] = true
		i.events.Eventf(s, corev1.EventTypeNormal, "IPAllocated", "Assigned IP [%q]", address.String())
		if err := i.giveAddresses(ctx, s, []string{address.String()}); err != nil {
			return err
		}
	}
	return nil
}

// fromPools reports whether an address is of a pool that is for this Service. Another's is given up
// (MetalLB: convergeBalancer in controller/service.go; Cilium: stripInvalidAllocations and stripOrImportIngresses in operator/pkg/lbipam).
func fromPools(from []addressPool, s *corev1.Service, address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(from, func(p addressPool) bool { return p.has(a) && (p.only == nil || p.only(s)) })
}

// choose finds an address, or says in MetalLB's words why there is none.
func choose(from []addressPool, s *corev1.Service, taken map[netip.Addr]bool, want, pool string) (netip.Addr, string) {
	if want != "" {
		a, err := netip.ParseAddr(want)
		if err != nil {
			return a, fmt.Sprintf("invalid spec.loadBalancerIP %q", want)
		}
		switch {
		case !slices.ContainsFunc(from, func(p addressPool) bool { return p.has(a) }):
			return a, fmt.Sprintf("%q is not allowed in config", "["+want+"]")
		case taken[a]:
			return a, fmt.Sprintf("can't change sharing key for %q, address also in use by another service", s.Namespace+"/"+s.Name)
		}
		return a, ""
	}
	for _, p := range from {
		if pool != "" && p.name != pool || pool == "" && !p.auto || p.only != nil && !p.only(s) {
			continue
		}
		if a, ok := p.first(taken); ok {
			return a, ""
		}
	}
	if pool != "" {
		return netip.Addr{}, fmt.Sprintf("unknown pool %q", pool)
	}
	return netip.Addr{}, "no available IPs"
}

// ciliumOperator simulates Cilium's operator: it creates its own definitions of kinds, and
// assigns addresses of its pools.
func ciliumOperator(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept == nil {
		for _, k := range [][3]string{
			{"ciliumloadbalancerippools", "CiliumLoadBalancerIPPool", "v2"}, {"ciliuml2announcementpolicies", "CiliumL2AnnouncementPolicy", "v2alpha1"},
			{"ciliumnetworkpolicies", "CiliumNetworkPolicy", "v2"}, {"ciliumnodes", "CiliumNode", "v2"},
		} {
			scope := "Cluster"
			if k[1] == "CiliumNetworkPolicy" {
				scope = "Namespaced"
			}
			if err := i.apply(ctx, definition("cilium.io", k[2], k[0], k[1], scope)); err != nil {
				return 0, err
			}
		}
		i.kept = true
	}
	list, err := i.Dynamic.Resource(ciliumPool().gvr()).List(ctx, metav1.ListOptions{})
	if err != nil { // not served yet
		return time.Second, nil //nolint:nilerr // the definitions are a moment old
	}
	var from []addressPool
	for _, o := range list.Items {
		p := addressPool{name: o.GetName(), auto: true, buggy: true, only: selector(&o)}
		blocks, _, _ := unstructured.NestedSlice(o.Object, "spec", "blocks")
		for _, b := range blocks {
			m, _ := b.(map[string]any)
			text, _ := m["cidr"].(string)
			if start, ok := m["start"].(string); ok {
				stop, _ := m["stop"].(string)
				text = start + "-" + cmp.Or(stop, start)
			}
			if r, err := parseRange(text); err == nil {
				p.ranges = append(p.ranges, r)
			}
		}
		from = append(from, p)
	}
	const look = 2 * time.Second // pools are not watched: their kind came after the program
	return look, i.assign(ctx, from, "", "lbipam.cilium.io/ips", "")
}

// selector is a pool's serviceSelector, as far as it is one of labels.
func selector(pool *unstructured.Unstructured) func(*corev1.Service) bool {
	want, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "serviceSelector", "matchLabels")
	return func(s *corev1.Service) bool {
		for key, value := range want {
			have := s.Labels[key]
			switch key {
			case "io.kubernetes.service.namespace":
				have = s.Namespace
			case "io.kubernetes.service.name":
				have = s.Name
			}
			if have != value {
				return false
			}
		}
		return true
	}
}

// definition defines a kind that accepts everything.
func definition(group, version, plural, kind, scope string) *unstructured.Unstructured {
	// Groups of Kubernetes' own are guarded: this is where the Gateway API was approved.
	approved := map[string]any{"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/2466"}}
	return object.New("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+"."+group, map[string]any{"metadata": approved, "spec": map[string]any{
		"group": group, "scope": scope,
		"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
		"versions": []any{map[string]any{
			"name": version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}})
}
