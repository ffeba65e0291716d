package harvestersim

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
)

// instance is a machine that is switched on.
type instance struct {
	machine  *guest.Machine
	off      atomic.Bool // the guest has switched itself off
	stopping bool
}

// startInstance makes the instance of a machine.
func (s *Sim) startInstance(ctx context.Context, vm *unstructured.Unstructured) bool {
	template, _ := fieldAt(vm.DeepCopy().Object, "spec", "template").(object)
	labels, _ := fieldAt(template, "metadata", "labels").(object)
	return s.create(ctx, instances(), object{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": object{"name": vm.GetName(), "namespace": vm.GetNamespace(), "labels": labels,
			"annotations": object{"sim/started": templateText(vm)}, "finalizers": []any{"kubevirt.io/foregroundDeleteVirtualMachine"},
			"ownerReferences": []any{object{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": vm.GetName(), "uid": string(vm.GetUID()), "controller": true}}},
		"spec": template["spec"], "status": object{}}) == nil
}

func podName(i *unstructured.Unstructured) string {
	return fmt.Sprintf("virt-launcher-%s-%s", i.GetName(), string(i.GetUID())[:5])
}

// reconcileInstance takes an instance one step further.
func (s *Sim) reconcileInstance(ctx context.Context, i *unstructured.Unstructured) {
	key := i.GetNamespace() + "/" + i.GetName()
	pod := s.get(ctx, pods(), i.GetNamespace(), podName(i))
	if i.GetDeletionTimestamp() != nil {
		s.endInstance(ctx, i, pod, key)
		return
	}
	before := i.DeepCopy()
	switch {
	case phase(i) == "" && pod == nil:
		if s.lacks(ctx, i) {
			break
		}
		if s.create(ctx, pods(), launcher(i)) == nil {
			setStatus(i, "Scheduling", "phase")
		}
	case phase(i) == "" || phase(i) == "Scheduling":
		s.schedule(ctx, i, pod, key)
	case phase(i) == "Running":
		s.mu.Lock()
		now := s.running[key]
		s.mu.Unlock()
		if now == nil || now.off.Load() {
			setStatus(i, "Succeeded", "phase")
		}
	}
	if fmt.Sprint(before.Object["status"]) != fmt.Sprint(i.Object["status"]) {
		s.updateStatus(ctx, instances(), i)
	}
}

// lacks says why an instance gets no pod, in a condition.
func (s *Sim) lacks(ctx context.Context, i *unstructured.Unstructured) bool {
	for _, name := range claimNames(object{"spec": object{"template": i.Object}}) {
		c := s.get(ctx, volumes(), i.GetNamespace(), name)
		if c == nil || textAt(c.Object, "status", "phase") != "Bound" {
			setCondition(i, "Provisioning", false, "", "volume "+name+" is not bound")
			return true
		}
	}
	for _, n := range listAt(i.Object, "spec", "networks") {
		ns, name, _ := strings.Cut(textAt(n, "multus", "networkName"), "/")
		if s.get(ctx, networks(), ns, name) == nil {
			setCondition(i, "Synchronized", false, "FailedCreate", fmt.Sprintf("failed to render launch manifest: Failed to locate network attachment definition %s/%s", ns, name))
			return true
		}
	}
	return false
}

// launcher is the pod of an instance: what it asks of a node, and the container with the console.
func launcher(i *unstructured.Unstructured) object {
	limits := object{}
	for r, n := range deviceCounts(i) {
		limits[r] = fmt.Sprint(n)
	}
	requests, _ := fieldAt(i.DeepCopy().Object, "spec", "domain", "resources", "requests").(object)
	if requests == nil {
		requests = object{}
	}
	for r, n := range limits {
		requests[r] = n
	}
	init := []any{}
	if fieldAt(i.Object, "spec", "domain", "devices", "logSerialConsole") == true {
		init = append(init, object{"name": "guest-console-log", "image": "virt-launcher", "restartPolicy": "Always"})
	}
	spec := object{"restartPolicy": "Never", "initContainers": init,
		"containers": []any{object{"name": "compute", "image": "virt-launcher", "resources": object{"requests": requests, "limits": limits}}}}
	if selector, ok := fieldAt(i.DeepCopy().Object, "spec", "nodeSelector").(object); ok {
		spec["nodeSelector"] = selector
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": podName(i), "namespace": i.GetNamespace(),
		"labels":          object{"vm.kubevirt.io/name": i.GetName(), "kubevirt.io": "virt-launcher"},
		"ownerReferences": []any{object{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": i.GetName(), "uid": string(i.GetUID()), "controller": true}}},
		"spec": spec}
}

// deviceCounts are the devices that an instance asks for, by their resource.
func deviceCounts(i *unstructured.Unstructured) map[string]int64 {
	out := map[string]int64{}
	for _, h := range listAt(i.Object, "spec", "domain", "devices", "hostDevices") {
		out[textAt(h, "deviceName")]++
	}
	return out
}

// schedule follows the pod: to a node, and until the guest boots.
func (s *Sim) schedule(ctx context.Context, i, pod *unstructured.Unstructured, key string) {
	if pod == nil {
		setStatus(i, "", "phase")
		return
	}
	node := textAt(pod.Object, "spec", "nodeName")
	if node == "" {
		if c := find(pod, "PodScheduled"); textAt(c, "status") == "False" {
			setCondition(i, "PodScheduled", false, textAt(c, "reason"), textAt(c, "message"))
		}
		return
	}
	dropCondition(i, "PodScheduled")
	seed, ok := s.seed(ctx, i)
	if !ok {
		return // the pod waits for a Secret that is not there
	}
	given, ok := s.allocate(ctx, node, key, deviceCounts(i))
	if !ok {
		return
	}
	setStatus(pod, "Running", "phase")
	setCondition(pod, "Ready", true, "", "")
	if !s.updateStatus(ctx, pods(), pod) {
		s.release(key)
		return
	}
	s.boot(ctx, i, key, given, seed)
	setStatus(i, "Running", "phase")
	setStatus(i, node, "nodeName")
	var interfaces []any
	for _, n := range listAt(i.Object, "spec", "domain", "devices", "interfaces") {
		interfaces = append(interfaces, object{"name": textAt(n, "name"), "mac": textAt(n, "macAddress")})
	}
	setStatus(i, interfaces, "interfaces")
	s.note(ctx, i, given)
}

// note writes at the machine which devices it has (reconcileDeviceAllocationDetails).
func (s *Sim) note(ctx context.Context, i *unstructured.Unstructured, given map[string][]string) {
	if len(given) == 0 {
		return
	}
	vm := s.get(ctx, vms(), i.GetNamespace(), i.GetName())
	if vm == nil {
		return
	}
	text, _ := json.Marshal(map[string]any{"hostdevices": given})
	annotations := vm.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["harvesterhci.io/deviceAllocationDetails"] = string(text)
	vm.SetAnnotations(annotations)
	s.update(ctx, vms(), vm)
}

// seed reads the documents of an instance's cloud-init disk; not ok if a Secret is not there.
func (s *Sim) seed(ctx context.Context, i *unstructured.Unstructured) (map[string][]byte, bool) {
	for _, v := range listAt(i.Object, "spec", "volumes") {
		c, ok := fieldAt(v, "cloudInitNoCloud").(object)
		if !ok {
			continue
		}
		files := map[string][]byte{"meta-data": fmt.Appendf(nil, "{\"instance-id\":\"%s.%s\",\"local-hostname\":\"%s\"}\n", i.GetName(), i.GetNamespace(), textAt(i.Object, "spec", "hostname"))}
		for field, file := range map[string][2]string{"secretRef": {"userdata", "user-data"}, "networkDataSecretRef": {"networkdata", "network-config"}} {
			name := textAt(c, field, "name")
			if name == "" {
				continue
			}
			secret := s.get(ctx, secrets(), i.GetNamespace(), name)
			if secret == nil {
				return nil, false
			}
			text, err := base64.StdEncoding.DecodeString(textAt(secret.Object, "data", file[0]))
			if err != nil {
				return nil, false
			}
			files[file[1]] = text
		}
		return files, true
	}
	return nil, true
}

// boot switches the machine on.
func (s *Sim) boot(ctx context.Context, i *unstructured.Unstructured, key string, given map[string][]string, seed map[string][]byte) {
	now := &instance{}
	cfg := guest.Config{Name: i.GetName(), VMID: int(crc32.ChecksumIEEE([]byte(key)) % 1e6), Network: s.cfg.Network, Internet: s.cfg.Internet,
		Kubernetes: s.cfg.Kubernetes, Speed: s.cfg.Speed, Memory: quantity(textAt(i.Object, "spec", "domain", "memory", "guest")),
		OnPoweroff: func(reboot bool) { now.off.Store(!reboot) },
		Seed: func() ([]byte, error) {
			if seed == nil {
				return nil, nil
			}
			return iso.Write("cidata", seed)
		}}
	cores, _ := fieldAt(i.Object, "spec", "domain", "cpu", "cores").(int64)
	cfg.CPUs = int(cores)
	cfg.SecureBoot = fieldAt(i.Object, "spec", "domain", "firmware", "bootloader", "efi", "secureBoot") == true
	for _, n := range listAt(i.Object, "spec", "domain", "devices", "interfaces") {
		cfg.MACs = append(cfg.MACs, textAt(n, "macAddress"))
	}
	cfg.Disks = s.blockDevices(ctx, i)
	if len(cfg.Disks) > 0 {
		cfg.Disk = cfg.Disks[0].Data
	}
	s.mu.Lock()
	for _, names := range given {
		for _, name := range names {
			p := s.hardware[name].PCI
			p.Address = fmt.Sprintf("0000:%02x:00.0", len(cfg.PCI)+1)
			cfg.PCI = append(cfg.PCI, p)
		}
	}
	now.machine = guest.New(cfg)
	s.running[key] = now
	s.mu.Unlock()
	_ = now.machine.Boot(context.WithoutCancel(ctx)) // it comes up in the background, or its console says why not
}

// blockDevices are the disks of an instance, in order.
func (s *Sim) blockDevices(ctx context.Context, i *unstructured.Unstructured) []guest.BlockDevice {
	serials := map[string]string{}
	for _, d := range listAt(i.Object, "spec", "domain", "devices", "disks") {
		serials[textAt(d, "name")] = textAt(d, "serial")
	}
	var out []guest.BlockDevice
	for _, v := range listAt(i.Object, "spec", "volumes") {
		name := textAt(v, "persistentVolumeClaim", "claimName")
		if name == "" {
			continue
		}
		c := s.get(ctx, volumes(), i.GetNamespace(), name)
		if c == nil {
			continue
		}
		s.mu.Lock()
		out = append(out, guest.BlockDevice{Serial: serials[textAt(v, "name")], Data: s.disks[string(c.GetUID())],
			Size: quantity(textAt(c.Object, "spec", "resources", "requests", "storage"))})
		s.mu.Unlock()
	}
	return out
}

// endInstance shuts the guest down, and removes the instance when it is off. The machine's object then names the
// devices that it had (OnVMIDeletion of harvester/pcidevices).
func (s *Sim) endInstance(ctx context.Context, i, pod *unstructured.Unstructured, key string) {
	s.mu.Lock()
	now := s.running[key]
	s.mu.Unlock()
	if now != nil && !now.off.Load() {
		if !now.stopping {
			now.stopping = true
			if now.machine.Shutdown() != nil { // it does not listen
				now.machine.Kill()
				now.off.Store(true)
			}
		}
		if now.machine.Running() && !now.off.Load() {
			return
		}
	}
	if vm := s.get(ctx, vms(), i.GetNamespace(), i.GetName()); vm != nil && vm.GetDeletionTimestamp() == nil {
		if !s.nameDevices(ctx, vm) {
			return
		}
	}
	s.mu.Lock()
	delete(s.running, key)
	s.mu.Unlock()
	s.release(key)
	if pod != nil {
		s.remove(ctx, pods(), pod)
	}
	i.SetFinalizers(nil)
	s.update(ctx, instances(), i)
}

func (s *Sim) nameDevices(ctx context.Context, vm *unstructured.Unstructured) bool {
	var had struct {
		HostDevices map[string][]string `json:"hostdevices"`
	}
	if json.Unmarshal([]byte(vm.GetAnnotations()["harvesterhci.io/deviceAllocationDetails"]), &had) != nil {
		return true
	}
	changed := false
	for _, h := range listAt(vm.Object, "spec", "template", "spec", "domain", "devices", "hostDevices") {
		r := textAt(h, "deviceName")
		if names := had.HostDevices[r]; len(names) > 0 {
			changed = changed || textAt(h, "name") != names[0]
			h.(object)["name"], had.HostDevices[r] = names[0], names[1:]
		}
	}
	return !changed || s.update(ctx, vms(), vm)
}
