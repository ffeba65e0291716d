package harvester

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// Requirements are what a cluster needs of Harvester.
type Requirements struct {
	Machines []VMSpec
	Images   []ImageSpec // those that [Client.EnsureImage] is asked for
}

// Finding is one problem that was found, and what to do.
type Finding struct {
	ID       string // version, rights, namespace, network, storage, image, machine, devices, addon, capacity
	Subject  string // what it is about
	Evidence string // what the check saw, as a sentence that stands alone
	Cure     string // what to do
	Warning  bool   // it may fail; otherwise it will
}

// String returns the finding as an error message.
func (f Finding) String() string {
	if f.Cure == "" {
		return f.Evidence
	}
	return f.Evidence + "\n  " + f.Cure
}

// Check finds everything that stands in the way of what is required. It changes nothing. The error is of an API that
// does not answer; what it refuses to show is a finding.
func (c *Client) Check(ctx context.Context, r Requirements) ([]Finding, error) {
	k := &checker{c: c, r: r}
	for _, check := range []func(context.Context) error{
		k.version, k.rights, k.space, k.networks, k.storage, k.images, k.machines, k.addon, k.devices,
	} {
		err := check(ctx)
		switch {
		case errors.Is(err, kube.ErrForbidden): // rights has said so
		case err != nil:
			return k.out, err
		}
	}
	return k.out, nil
}

type checker struct {
	c   *Client
	r   Requirements
	out []Finding
}

func (k *checker) bad(id, subject, cure, format string, args ...any) {
	k.out = append(k.out, Finding{ID: id, Subject: subject, Cure: cure, Evidence: fmt.Sprintf(format, args...)})
}

// oldest and newest are the first and the last minor version that this package is written for.
const oldest, newest = 5, 8

// Version is Harvester's version, such as v1.8.0.
func (c *Client) Version(ctx context.Context) (string, error) {
	u, err := c.read(ctx, settingKind(), "", "server-version")
	var none *kube.NoKindError
	if errors.As(err, &none) || err == nil && u == nil {
		return "", fmt.Errorf("the Kubernetes API that answers is not Harvester's: %w", errors.Join(err, kube.ErrNotFound))
	}
	if err != nil {
		return "", err
	}
	value, _ := u.Object["value"].(string)
	if value == "" {
		value, _ = u.Object["default"].(string)
	}
	return value, nil
}

func (k *checker) version(ctx context.Context) error {
	if err := k.c.kube.CheckReachable(ctx); err != nil {
		return err
	}
	version, err := k.c.Version(ctx)
	if errors.Is(err, kube.ErrNotFound) {
		k.bad("version", "", "take the kubeconfig from Harvester's support page, not that of a cluster on it", "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	var major, minor int
	_, err = fmt.Sscanf(version, "v%d.%d.", &major, &minor)
	switch {
	case err != nil || major > 1 || minor > newest:
		k.out = append(k.out, Finding{ID: "version", Subject: version, Warning: true,
			Evidence: fmt.Sprintf("Harvester is %s, which nobody has tried: v1.%d to v1.%d are known", version, oldest, newest)})
	case minor < oldest:
		k.bad("version", version, fmt.Sprintf("upgrade it to v1.%d or later", oldest), "Harvester is %s, which is too old", version)
	}
	return nil
}

// needs are the rights that machines need.
func (k *checker) needs() []kube.Right {
	var out []kube.Right
	add := func(group, resource, namespace string, verbs ...string) {
		for _, v := range verbs {
			out = append(out, kube.Right{Verb: v, Group: group, Resource: resource, Namespace: namespace})
		}
	}
	ns := k.c.namespace
	add("kubevirt.io", "virtualmachines", ns, "get", "list", "create", "update", "delete")
	add("kubevirt.io", "virtualmachineinstances", ns, "get", "list")
	add("", "secrets", ns, "get", "list", "create", "update", "delete")
	add("", "persistentvolumeclaims", ns, "list", "delete")
	add("", "pods", ns, "list")
	out = append(out, kube.Right{Verb: "get", Resource: "pods", Subresource: "log", Namespace: ns})
	add("coordination.k8s.io", "leases", ns, "get", "create", "update", "delete")
	add("storage.k8s.io", "storageclasses", "", "list")
	for _, i := range k.r.Images {
		namespace, _, _ := strings.Cut(k.c.qualify(i.Name), "/")
		add("harvesterhci.io", "virtualmachineimages", namespace, "get", "create")
	}
	if k.wantsDevices() {
		add("kubevirt.io", "virtualmachines", "", "list")
		add("devices.harvesterhci.io", "pcidevices", "", "get", "list")
		add("devices.harvesterhci.io", "pcideviceclaims", "", "get", "list", "create", "delete")
	}
	return out
}

func (k *checker) rights(ctx context.Context) error {
	missing := map[string][]string{}
	var order []string
	for _, r := range k.needs() {
		ok, err := k.c.kube.May(ctx, r)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		what := strings.Trim(r.Resource+"."+r.Group, ".")
		if r.Subresource != "" {
			what = r.Resource + "/" + r.Subresource
		}
		if r.Namespace != "" {
			what += " in namespace " + r.Namespace
		}
		if missing[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(missing[what], r.Verb) {
			missing[what] = append(missing[what], r.Verb)
		}
	}
	for _, what := range order {
		k.bad("rights", what, "give the kubeconfig's user a role with them", "these credentials may not %s %s", strings.Join(missing[what], ", "), what)
	}
	return nil
}

func (k *checker) space(ctx context.Context) error {
	u, err := k.c.read(ctx, kind{"v1", "Namespace"}, "", k.c.namespace)
	switch {
	case err != nil:
		return err
	case u == nil:
		k.bad("namespace", k.c.namespace, "create it: kubectl create namespace "+k.c.namespace, "there is no namespace %s", k.c.namespace)
	case u.GetDeletionTimestamp() != nil:
		k.bad("namespace", k.c.namespace, "wait until it is gone, and create it again", "namespace %s is being removed", k.c.namespace)
	}
	return nil
}

func (k *checker) networks(ctx context.Context) error {
	seen := map[string]bool{}
	for _, s := range k.r.Machines {
		for _, n := range s.NICs {
			name := k.c.qualify(n.Network)
			if seen[name] {
				continue
			}
			seen[name] = true
			namespace, short, _ := strings.Cut(name, "/")
			u, err := k.c.read(ctx, networkKind(), namespace, short)
			switch {
			case err != nil:
				return err
			case u == nil:
				k.bad("network", name, "make it in Harvester (Networks, Virtual Machine Networks), or write another", "there is no network %s", name)
			}
		}
	}
	return nil
}

func (k *checker) storage(ctx context.Context) error {
	classes, err := k.c.classes(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range k.r.Machines {
		for i, d := range s.Disks {
			if _, ok := classes[d.StorageClass]; ok || i == 0 || seen[d.StorageClass] {
				continue
			}
			seen[d.StorageClass] = true
			if d.StorageClass == "" {
				k.bad("storage", "", "name one, or make one the default in Harvester", "there is no default storage class")
				continue
			}
			k.bad("storage", d.StorageClass, "write another", "there is no storage class %s", d.StorageClass)
		}
	}
	return nil
}

func (k *checker) images(ctx context.Context) error {
	seen := map[string]bool{}
	for _, s := range k.r.Images {
		seen[k.c.qualify(s.Name)] = true
		i, err := k.c.Image(ctx, s.Name)
		switch {
		case err != nil:
			return err
		case i == nil:
		case i.URL != s.URL || s.Checksum != "" && !strings.EqualFold(i.Checksum, s.Checksum):
			k.bad("image", i.Name, "give this one another name", "image %s is another one: it is from %s", i.Name, i.URL)
		case i.Failed != "":
			k.bad("image", i.Name, "remove it, and it is downloaded again", "image %s cannot be imported: %s", i.Name, i.Failed)
		}
	}
	for _, s := range k.r.Machines {
		name := k.c.qualify(s.Image)
		if seen[name] {
			continue
		}
		seen[name] = true
		i, err := k.c.Image(ctx, name)
		switch {
		case err != nil:
			return err
		case i == nil:
			k.bad("image", name, "upload it in Harvester, or write its URL", "there is no image %s", name)
		case i.Backend == "cdi":
			k.bad("image", name, "import it with Longhorn's backing images", "image %s is one of CDI, of which machines are not made", name)
		case !i.Ready:
			k.bad("image", name, "wait, or look at it in Harvester", "image %s cannot be used: %s", name, i.Waiting())
		}
	}
	return nil
}

// machines finds names that somebody else has.
func (k *checker) machines(ctx context.Context) error {
	for _, s := range k.r.Machines {
		if err := s.Check(); err != nil {
			k.bad("machine", s.Name, "", "%v", err)
		}
		objects := []*unstructured.Unstructured{vmKind().object(k.c.namespace, s.Name), secretKind().object(k.c.namespace, secretName(s.Name))}
		for _, u := range objects {
			err := k.c.kube.Get(ctx, u)
			switch {
			case errors.Is(err, kube.ErrNotFound):
			case errors.As(err, new(*kube.NoKindError)):
				return nil // version has said so
			case err != nil:
				return err
			case !k.c.owns(u, s.Name):
				k.bad("machine", s.Name, "rename the cluster or the machine, or remove that one", "%s exists and is not ours", kube.RefOf(u))
			}
		}
	}
	return nil
}

// addon finds machines with devices where nothing offers devices.
func (k *checker) addon(ctx context.Context) error {
	if !k.wantsDevices() {
		return nil
	}
	const name = "pcidevices-controller"
	u, err := k.c.read(ctx, addonKind(), "harvester-system", name)
	if err != nil {
		return err
	}
	enabled := false
	if u != nil {
		enabled, _, _ = unstructured.NestedBool(u.Object, "spec", "enabled")
	}
	if !enabled {
		k.bad("addon", name, "enable it in Harvester: Advanced, Add-ons, "+name, "the add-on %s, which offers PCI devices to machines, is not enabled", name)
	}
	return nil
}

func (k *checker) devices(ctx context.Context) error {
	if !k.wantsDevices() {
		return nil
	}
	all, err := k.c.Devices(ctx)
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for _, s := range k.r.Machines {
		for _, err := range k.c.judgeDevices(s, all) {
			k.bad("devices", s.Name, "choose another one, or free it", "%v", err)
		}
		for _, d := range s.Devices {
			if other := taken[d.Name]; other != "" {
				k.bad("devices", d.Name, "give one of them another", "machines %s and %s both want device %s", other, s.Name, d.Name)
			}
			taken[d.Name] = s.Name
		}
	}
	return k.capacity(ctx, all)
}

// wantsDevices reports whether any machine has devices.
func (k *checker) wantsDevices() bool {
	return slices.ContainsFunc(k.r.Machines, func(s VMSpec) bool { return len(s.Devices) > 0 })
}

// capacity finds machines with devices that do not fit on the node of those. Other machines go where there is room.
func (k *checker) capacity(ctx context.Context, all []Device) error {
	nodes, err := kube.ListAs[corev1.Node](ctx, k.c.kube, "v1", "Node", "", "")
	if err != nil {
		return err
	}
	left := map[string]int64{} // bytes of memory
	for _, n := range nodes {
		left[n.Name] = n.Status.Allocatable.Memory().Value()
	}
	for _, s := range k.r.Machines {
		if len(s.Devices) == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(d Device) bool { return d.Name == s.Devices[0].Name })
		if i < 0 {
			continue // devices has said so
		}
		node := all[i].Node
		if left[node] < int64(s.Memory) {
			k.bad("capacity", s.Name, "make it smaller, or use the devices of another node", "machine %s with %s of memory does not fit on %s, which has %s left of what it gives to machines",
				s.Name, s.Memory, node, resource.NewQuantity(max(0, left[node]), resource.BinarySI))
		}
		left[node] -= int64(s.Memory)
	}
	return nil
}
