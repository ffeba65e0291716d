package harvestersim

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reconcile looks at everything once.
func (s *Sim) reconcile(ctx context.Context) {
	s.importImages(ctx)
	s.claimDevices(ctx)
	s.bindVolumes(ctx)
	all := map[string]*unstructured.Unstructured{}
	for _, i := range s.list(ctx, instances()) {
		all[i.GetNamespace()+"/"+i.GetName()] = i
	}
	var using = map[string]string{}
	for _, vm := range s.list(ctx, vms()) {
		key := vm.GetNamespace() + "/" + vm.GetName()
		for _, claim := range claimNames(vm.Object) {
			if vm.GetDeletionTimestamp() == nil {
				using[vm.GetNamespace()+"/"+claim] = key
			}
		}
		s.reconcileVM(ctx, vm, all[key])
	}
	s.mu.Lock()
	s.attached = using
	s.mu.Unlock()
	for _, i := range all {
		s.reconcileInstance(ctx, i)
	}
}

// The finalizers of a machine: KubeVirt's, and the one by which Harvester removes volumes that are to go with it.
func finalizers() []string {
	return []string{"kubevirt.io/virtualMachineControllerFinalize", "wrangler.cattle.io/VMController.CleanupPVCAndSnapshot"}
}

func (s *Sim) reconcileVM(ctx context.Context, vm, instance *unstructured.Unstructured) {
	switch {
	case vm.GetDeletionTimestamp() != nil:
		s.removeVM(ctx, vm, instance)
		return
	case len(vm.GetFinalizers()) == 0:
		vm.SetFinalizers(finalizers())
		s.update(ctx, vms(), vm)
		return
	}
	s.makeVolumes(ctx, vm)
	before := vm.DeepCopy()
	s.follow(ctx, vm, instance)
	s.judge(ctx, vm, instance)
	if !reflect.DeepEqual(before.Object, vm.Object) {
		s.updateStatus(ctx, vms(), vm)
	}
}

// follow does what the machine's strategy says (syncRunStrategy): one that reruns on failure is started when it comes
// from another strategy, or its instance has failed, and not when its guest has switched itself off.
func (s *Sim) follow(ctx context.Context, vm, instance *unstructured.Unstructured) {
	strategy, seen := strategyOf(vm), textAt(vm.Object, "status", "runStrategy")
	final := phase(instance) == "Succeeded" || phase(instance) == "Failed"
	started := false
	switch {
	case instance != nil && (strategy == "Halted" || final):
		if instance.GetDeletionTimestamp() == nil {
			s.remove(ctx, instances(), instance)
		}
	case instance != nil, strategy == "Halted":
	case strategy == "Always" || seen != strategy || fieldAt(vm.Object, "status", "startRequested") == true:
		if started = s.startInstance(ctx, vm); started {
			setStatus(vm, false, "startRequested")
		}
	}
	if phase(instance) == "Failed" && strategy == "RerunOnFailure" {
		setStatus(vm, true, "startRequested")
	}
	setStatus(vm, started || instance != nil, "created")
	if started || instance != nil || strategy == "Halted" {
		setStatus(vm, strategy, "runStrategy")
	}
}

func strategyOf(vm *unstructured.Unstructured) string {
	if r := textAt(vm.Object, "spec", "runStrategy"); r != "" {
		return r
	}
	if fieldAt(vm.Object, "spec", "running") == true {
		return "Always"
	}
	return "Halted"
}

func phase(instance *unstructured.Unstructured) string {
	if instance == nil {
		return ""
	}
	return textAt(instance.Object, "status", "phase")
}

// judge says what a machine does (setPrintableStatus), and that a change waits for a restart.
func (s *Sim) judge(ctx context.Context, vm, instance *unstructured.Unstructured) {
	status := "Stopped"
	switch {
	case instance == nil && strategyOf(vm) != "Halted" && fieldAt(vm.Object, "status", "created") == true:
		status = "Starting"
	case instance == nil:
	case instance.GetDeletionTimestamp() != nil:
		status = "Stopping"
	case phase(instance) == "Running":
		status = "Running"
	case s.missingVolume(ctx, vm):
		status = "ErrorPvcNotFound"
	case textAt(find(instance, "PodScheduled"), "reason") == "Unschedulable":
		status = "ErrorUnschedulable"
	default:
		status = "Starting"
	}
	setStatus(vm, status, "printableStatus")
	setStatus(vm, status == "Running", "ready")
	setCondition(vm, "Ready", status == "Running", map[bool]string{false: "VMINotExists"}[instance != nil], "")
	if instance == nil {
		dropCondition(vm, "RestartRequired")
		return
	}
	if started := instance.GetAnnotations()["sim/started"]; started != "" && started != templateText(vm) {
		setCondition(vm, "RestartRequired", true, "RestartRequired", "a non-live-updatable field was changed in the template spec")
	}
}

func find(u *unstructured.Unstructured, kind string) any {
	for _, c := range listAt(u.Object, "status", "conditions") {
		if textAt(c, "type") == kind {
			return c
		}
	}
	return nil
}

// templateText is what of a machine's template takes a restart: all but where it may run.
func templateText(vm *unstructured.Unstructured) string {
	spec, _ := vm.DeepCopy().Object["spec"].(object)["template"].(object)["spec"].(object)
	for _, k := range []string{"nodeSelector", "affinity", "tolerations"} {
		delete(spec, k)
	}
	b, _ := json.Marshal(spec)
	return string(b)
}

// removeVM removes a machine: its instance, the volumes that are named to go with it, itself. Other volumes stay.
func (s *Sim) removeVM(ctx context.Context, vm, instance *unstructured.Unstructured) {
	if instance != nil {
		if instance.GetDeletionTimestamp() == nil {
			s.remove(ctx, instances(), instance)
		}
		return
	}
	for name := range strings.SplitSeq(vm.GetAnnotations()["harvesterhci.io/removedPersistentVolumeClaims"], ",") {
		if c := s.get(ctx, volumes(), vm.GetNamespace(), strings.TrimSpace(name)); c != nil && name != "" {
			s.remove(ctx, volumes(), c)
		}
	}
	vm.SetFinalizers(nil)
	s.update(ctx, vms(), vm)
}

// makeVolumes makes and grows the volumes of the machine's templates (createPVCsFromAnnotation).
func (s *Sim) makeVolumes(ctx context.Context, vm *unstructured.Unstructured) {
	var templates []object
	if json.Unmarshal([]byte(vm.GetAnnotations()["harvesterhci.io/volumeClaimTemplates"]), &templates) != nil {
		return
	}
	for _, t := range templates {
		name := textAt(t, "metadata", "name")
		if image := textAt(t, "metadata", "annotations", "harvesterhci.io/imageId"); image != "" {
			ns, short, _ := strings.Cut(image, "/")
			if s.get(ctx, images(), ns, short) == nil {
				continue
			}
		}
		live := s.get(ctx, volumes(), vm.GetNamespace(), name)
		if live == nil {
			t["apiVersion"], t["kind"] = "v1", "PersistentVolumeClaim"
			t["metadata"].(object)["namespace"] = vm.GetNamespace()
			delete(t, "targetVolume")
			_ = s.create(ctx, volumes(), t) // or the next look
			continue
		}
		want, have := textAt(t, "spec", "resources", "requests", "storage"), textAt(live.Object, "spec", "resources", "requests", "storage")
		if quantity(want) > quantity(have) && live.GetDeletionTimestamp() == nil {
			_ = unstructured.SetNestedField(live.Object, want, "spec", "resources", "requests", "storage")
			s.update(ctx, volumes(), live)
		}
	}
}

func quantity(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.Value()
}

// claimNames are the claims of a machine's volumes.
func claimNames(vm object) []string {
	var out []string
	for _, v := range listAt(vm, "spec", "template", "spec", "volumes") {
		if name := textAt(v, "persistentVolumeClaim", "claimName"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func (s *Sim) missingVolume(ctx context.Context, vm *unstructured.Unstructured) bool {
	return slices.ContainsFunc(claimNames(vm.Object), func(name string) bool { return s.get(ctx, volumes(), vm.GetNamespace(), name) == nil })
}
