package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
)

// objects judges what runs in the cluster.
func (d *diagnosis) objects() {
	for kind, err := range d.e.Unread {
		d.add(inKubernetes, "",
			Finding{Failure: "unread", Severity: Warning, Where: "Kubernetes", What: "could not list every " + kind, Evidence: errorLines(err), Do: "run it again"})
	}
	d.pods()
	d.claims()
	d.classes()
	for _, ns := range fromUnstructured[corev1.Namespace](d.e.Objects["Namespace"]) {
		if at := ns.DeletionTimestamp; at != nil && d.e.Time.Sub(at.Time) > 10*time.Minute {
			d.add(inWorkload, "", Finding{
				Failure: "namespace-stuck", Severity: Warning, Where: "namespace " + ns.Name, What: "its deletion does not end", Evidence: conditionsOf(ns),
				Do: "an object in it waits for a controller that is gone; the evidence says which",
			})
		}
	}
}

func conditionsOf(ns corev1.Namespace) []string {
	var out []string
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			out = append(out, string(c.Type)+": "+c.Message)
		}
	}
	return out
}

// fromUnstructured reads objects of one kind. One that does not fit the type is left out.
func fromUnstructured[T any](all []unstructured.Unstructured) []T {
	var out []T
	for _, u := range all {
		var o T
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o) == nil {
			out = append(out, o)
		}
	}
	return out
}

// trouble is what keeps pods from running: equal ones of one owner are one finding.
type trouble struct {
	Finding
	pods []string
}

// settled is how old a pod must be: before that, it may just be starting.
const settled = 90 * time.Second

func (d *diagnosis) pods() {
	var all []*trouble
	index := map[string]*trouble{}
	for _, p := range fromUnstructured[corev1.Pod](d.e.Objects["Pod"]) {
		f, ok := d.pod(&p)
		if !ok {
			continue
		}
		key := f.Failure + "|" + f.What + "|" + ownerOf(&p) + "|" + f.machine
		if t := index[key]; t != nil {
			t.pods = append(t.pods, p.Name)
			continue
		}
		index[key] = &trouble{f, []string{p.Name}}
		all = append(all, index[key])
	}
	for _, t := range all {
		if more := len(t.pods) - 1; more > 0 {
			t.What += fmt.Sprintf(" (and %s of the same owner)", printable.Count(more, "more pod"))
		}
		d.add(t.layer, t.machine, t.Finding)
	}
}

// layerOf is that of a workload, but for pods without which a node offers no GPUs.
func layerOf(p *corev1.Pod) layer {
	for i, image := range []string{"/nvidia/driver:", "/container-toolkit:", "/k8s-device-plugin:"} {
		if len(p.Spec.Containers) > 0 && strings.Contains(p.Spec.Containers[0].Image, image) {
			return inDriver + layer(i)
		}
	}
	return inWorkload
}

func ownerOf(p *corev1.Pod) string {
	for _, o := range p.OwnerReferences {
		return p.Namespace + "/" + o.Kind + "/" + o.Name
	}
	return p.Namespace + "/" + p.Name
}

// pod judges a pod. A pod that waits is not the fault of a machine, one that runs on a machine
// may be.
func (d *diagnosis) pod(p *corev1.Pod) (Finding, bool) {
	f := Finding{Where: "pod " + p.Namespace + "/" + p.Name, machine: p.Spec.NodeName, layer: layerOf(p), pod: true}
	if p.Status.Phase == corev1.PodSucceeded || d.e.Time.Sub(p.CreationTimestamp.Time) < settled {
		return f, false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			d.explainPending(p, c.Message, &f)
			return f, true
		}
	}
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if judgeWaiting(p, cs, &f) {
			return f, true
		}
	}
	switch {
	case p.Status.Reason == "Evicted":
		f.Failure, f.Severity, f.What, f.Evidence, f.Do = "pod-evicted", Warning, "it was evicted: "+p.Status.Message, []string{p.Status.Message}, "make room on the node; delete the pod's record afterwards"
		return f, true
	case p.Status.Reason == "UnexpectedAdmissionError" && strings.Contains(p.Status.Message, "Allocate failed"):
		f.Failure, f.What, f.Evidence = "pod-not-starting", "its node refused it: "+p.Status.Message, []string{p.Status.Message}
		f.Do = "where GPUs are shared, a container gets one share: ask for 1 (docs/sharing.md); " +
			"elsewhere the node has lost a GPU: homelab gpu:verify"
		return f, true
	case p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "":
		f.Evidence = d.complaints("Pod", p.Namespace, p.Name)
		if len(f.Evidence) == 0 {
			return f, false
		}
		if d.explainAttach(p, &f) {
			return f, true
		}
		f.Failure, f.What, f.Do = "pod-not-starting", "it does not start: "+f.Evidence[len(f.Evidence)-1], "the evidence says what it waits for"
		if strings.Contains(f.What, `no runtime for "nvidia" is configured`) {
			f.Failure, f.Do = "toolkit", "the container toolkit came after K3s had started on "+p.Spec.NodeName+": homelab cluster:up restarts it"
		}
		return f, true
	}
	return f, d.judgeUnready(p, &f)
}

// explainPending explains why no node takes a pod.
func (d *diagnosis) explainPending(p *corev1.Pod, message string, f *Finding) {
	message, _, _ = strings.Cut(message, " preemption:")
	message = strings.TrimSuffix(strings.TrimSuffix(message, " no new claims to deallocate,"), ".")
	f.Failure, f.What, f.Evidence, f.Do = "pod-unschedulable", "no node takes it: "+message, []string{message}, "it asks for more than any node has left, or for nodes that do not exist"
	asks, most, resource := d.gpuRequest(p)
	switch {
	case asks > most && d.capacityFinding(asks, resource) != "":
		f.Follows, f.Do = d.capacityFinding(asks, resource), "it starts when that is fixed"
	case asks > most && resource == nvidia.Resource:
		f.Do = fmt.Sprintf("it asks for %s, and no node has more than %d: ask for fewer, or give a node more in the file", printable.Count(int(asks), "GPU"), most)
	case asks > most:
		f.Do = fmt.Sprintf("it asks for %d %s, and no node has more than %d: "+
			"ask for an instance that a node offers (docs/mig.md), or divide a GPU so in the file", asks, resource, most)
	case strings.Contains(message, diskPressure) && d.firstError(diskFull) != "":
		f.Follows, f.Do = d.firstError(diskFull), "it starts when that is fixed"
	case kube.Lacks(message, "nvidia.com/"):
		f.Severity, f.Do = Warning, "all fitting GPUs are taken: wait, or share them (docs/gpus.md)"
	case strings.Contains(message, "unbound immediate PersistentVolumeClaims"):
		f.Do = "its volume does not exist yet: see the finding of its claim"
	case strings.Contains(message, "untolerated taint"):
		f.Do = "the pod has no toleration for the nodes' taints"
	}
}

// capacityFinding is the finding of a node that would have so much of a resource, and does not offer it.
func (d *diagnosis) capacityFinding(asks int64, resource corev1.ResourceName) string {
	for _, f := range d.found {
		if n, ours := d.nodeOfFile(f.machine); ours && f.Failure == "gpus-not-offered" && int64(offer.GPUsOf(n).Resources[string(resource)]) >= asks {
			return f.name()
		}
	}
	return ""
}

// firstError is the first error of a kind, "" if there is none.
func (d *diagnosis) firstError(failure string) string {
	for _, f := range d.found {
		if f.Failure == failure && f.Severity == Error {
			return f.name()
		}
	}
	return ""
}

// asks is what a pod requests of GPUs or their instances, and the most that a node has of it. Of
// several resources it is the one that no node has enough of.
func (d *diagnosis) gpuRequest(p *corev1.Pod) (asks, most int64, resource corev1.ResourceName) {
	sum := map[corev1.ResourceName]int64{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Limits { // equal to its request, as for every such resource
			if strings.HasPrefix(string(name), "nvidia.com/") {
				sum[name] += q.Value()
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		asks, most, resource = sum[name], 0, name
		for _, n := range d.e.Nodes {
			most = max(most, n.Count(string(name)))
		}
		if asks > most {
			break
		}
	}
	return asks, most, resource
}

// judgeWaiting judges a container that does not run.
func judgeWaiting(p *corev1.Pod, cs corev1.ContainerStatus, f *Finding) bool {
	w := cs.State.Waiting
	if w == nil {
		return false
	}
	f.Evidence = []string{strings.Trim(w.Reason+": "+w.Message, ": ")}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		f.Failure, f.What, f.Do = "image", "image "+cs.Image+" cannot be pulled", "does the image exist, may the node read it (k3s.registries), and does it reach the registry?"
		if strings.Contains(cs.Image, "/nvidia/driver:") && strings.Contains(w.Message, "not found") {
			f.What = "the GPU operator's driver " + cs.Image + " cannot be pulled"
			f.Do = "NVIDIA has no driver container with prebuilt modules for every kernel: " +
				"remove usePrecompiled under nvidia.values, or write driver: {mode: prebuilt}"
		}
	case "CrashLoopBackOff":
		f.Failure, f.What, f.Do = "pod-crashing", "container "+cs.Name+" ends again and again", fmt.Sprintf("kubectl -n %s logs %s -c %s --previous", printable.Word(p.Namespace), printable.Word(p.Name), printable.Word(cs.Name))
		if strings.Contains(cs.Image, "/container-toolkit:") {
			f.Do = "it must find K3s' containerd: homelab cluster:up puts toolkit.env back; " + f.Do
		}
		if t := cs.LastTerminationState.Terminated; t != nil {
			f.addTermination(cs.Name, t)
		}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		f.Failure, f.What, f.Do = "pod-not-starting", "container "+cs.Name+" cannot be made: "+w.Message, "the message names what is missing"
	default:
		return false
	}
	return true
}

// complaints are the latest warnings about an object, the newest last, at most two.
func (d *diagnosis) complaints(kind, namespace, name string) []string {
	events := fromUnstructured[corev1.Event](d.e.Objects["Event"])
	events = slices.DeleteFunc(events, func(e corev1.Event) bool {
		o := e.InvolvedObject
		return e.Type != corev1.EventTypeWarning || o.Kind != kind || o.Namespace != namespace || o.Name != name
	})
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	var out []string
	for _, e := range events[max(0, len(events)-2):] {
		out = append(out, e.Reason+": "+e.Message)
	}
	return out
}

func (d *diagnosis) claims() {
	for _, c := range fromUnstructured[corev1.PersistentVolumeClaim](d.e.Objects["PersistentVolumeClaim"]) {
		if c.Status.Phase == corev1.ClaimBound || d.e.Time.Sub(c.CreationTimestamp.Time) < settled {
			continue
		}
		said := d.complaints("PersistentVolumeClaim", c.Namespace, c.Name)
		if c.Status.Phase == corev1.ClaimPending && len(said) == 0 {
			continue // it waits for its first pod
		}
		what := "its volume is lost"
		if c.Status.Phase == corev1.ClaimPending {
			what = "it gets no volume: " + said[len(said)-1]
		}
		d.add(inWorkload, "", Finding{Failure: "claim", Where: "claim " + c.Namespace + "/" + c.Name, What: what, Evidence: said, Do: "does its StorageClass exist, and does its provisioner run?"})
	}
}

// classes looks for more than one default StorageClass: which one a claim gets is then the
// newest, not the intended one.
func (d *diagnosis) classes() {
	var defaults []string
	for _, c := range fromUnstructured[storagev1.StorageClass](d.e.Objects["StorageClass"]) {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			defaults = append(defaults, c.Name)
		}
	}
	slices.Sort(defaults)
	if len(defaults) > 1 {
		d.add(inWorkload, "", Finding{
			Failure: "default-classes", Severity: Warning, Where: "storage", What: "several StorageClasses are the default: " + strings.Join(defaults, ", "), Evidence: defaults,
			Do: "keep one: kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class-",
		})
	}
}
