// Package workload says whose work runs on the nodes of a cluster, and which volumes have data there:
// what is lost when a step stops or destroys a node or a part.
package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Work is the work that runs on the nodes of a cluster, and the volumes with data there.
type Work struct {
	pods    []corev1.Pod // that have not ended
	volumes []corev1.PersistentVolume
	claims  []corev1.PersistentVolumeClaim
}

// Read reads all pods, volumes and claims. It makes three requests, and more for long lists.
func Read(ctx context.Context, client *kube.Client) (*Work, error) {
	w := &Work{}
	pods, err := kube.ListAs[corev1.Pod](ctx, client, "v1", "Pod", "", "")
	if err != nil {
		return nil, err
	}
	w.pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return kube.PodEnded(p.Status.Phase)
	})
	if w.volumes, err = kube.ListAs[corev1.PersistentVolume](ctx, client, "v1", "PersistentVolume", "", ""); err != nil {
		return nil, err
	}
	w.claims, err = kube.ListAs[corev1.PersistentVolumeClaim](ctx, client, "v1", "PersistentVolumeClaim", "", "")
	return w, err
}

// userNote is KubeSpawner's annotation with the owner of a notebook pod (kubespawner/spawner.py,
// _build_common_annotations). serverNote has the name of the server, if the owner has several.
const (
	userNote   = "hub.jupyter.org/username"
	serverNote = "hub.jupyter.org/servername"
)

// notebook returns the owner of a notebook pod, or "" for another pod.
func notebook(p corev1.Pod) string {
	user, ok := p.Annotations[userNote]
	if !ok || p.Labels["component"] != "singleuser-server" && p.Labels["app.kubernetes.io/component"] != "singleuser-server" {
		return ""
	}
	if server := p.Annotations[serverNote]; server != "" {
		return fmt.Sprintf("the notebook %s of %s", server, user)
	}
	return "the notebook of " + user
}

// LossesOn lists the work that ends when a node goes down: notebooks, pods with GPUs and pods without a
// controller by name, and the number of all other pods, which restart elsewhere or when the node is
// back. Pods that belong to the node itself do not count.
func (w *Work) LossesOn(node string) []converge.Loss {
	out, others := w.ends(node)
	text := ""
	switch {
	case others == 0:
		return out
	case others == 1 && len(out) == 0:
		text = "1 pod that is made again"
	case others == 1:
		text = "1 other pod"
	case len(out) == 0:
		text = fmt.Sprintf("%d pods that are made again", others)
	default:
		text = fmt.Sprintf("%d other pods", others)
	}
	return append(out, converge.Loss{Text: text, Counted: true})
}

// Ends is On without pods that are recreated.
func (w *Work) Ends(node string) []converge.Loss {
	out, _ := w.ends(node)
	return out
}

func (w *Work) ends(node string) (out []converge.Loss, others int) {
	var notebooks, named []converge.Loss
	for _, p := range w.pods {
		switch who := notebook(p); {
		case p.Spec.NodeName != node || kube.SurvivesDrain(p):
		case who != "":
			notebooks = append(notebooks, theirs(p, who))
		case gpus(p) > 0:
			named = append(named, converge.Loss{ID: madeBy(p), Text: fmt.Sprintf("pod %s/%s (%d GPU)", p.Namespace, p.Name, gpus(p))})
		case metav1.GetControllerOf(&p) == nil:
			named = append(named, converge.Loss{ID: madeBy(p), Text: fmt.Sprintf("pod %s/%s, which nobody makes again", p.Namespace, p.Name)})
		default:
			others++
		}
	}
	slices.SortFunc(notebooks, byText)
	slices.SortFunc(named, byText)
	return slices.Concat(notebooks, named), others
}

func byText(a, b converge.Loss) int { return strings.Compare(a.Text, b.Text) }

// theirs is a notebook as a loss: its owner's, and none of its pod's.
func theirs(p corev1.Pod, who string) converge.Loss {
	return converge.Loss{Text: who, ID: p.Namespace + " " + who}
}

// madeBy identifies a pod that ends by what makes it, since pods of one controller come and go, or
// else by its own name.
func madeBy(p corev1.Pod) string {
	kind, name := controller(p)
	if kind == "" {
		kind, name = "Pod", p.Name
	}
	return fmt.Sprintf("%s %s/%s", kind, p.Namespace, name)
}

// controller is what makes a pod, "" if nothing does. The ReplicaSets of a Deployment come and go; their
// names are its own and the hash of the pods' template.
func controller(p corev1.Pod) (kind, name string) {
	o := metav1.GetControllerOf(&p)
	if o == nil {
		return "", ""
	}
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; o.Kind == "ReplicaSet" && hash != "" {
		if of, ok := strings.CutSuffix(o.Name, "-"+hash); ok {
			return "Deployment", of
		}
	}
	return o.Kind, o.Name
}

// WithoutGPUs is the work without pods that hold GPUs.
func (w *Work) WithoutGPUs() *Work {
	out := *w
	out.pods = slices.DeleteFunc(slices.Clone(w.pods), func(p corev1.Pod) bool { return gpus(p) > 0 })
	return &out
}

// HoldGPUs names those of the pods that hold GPUs, whose owners they are, and what makes them. It leaves
// out pods that have ended or that belong to their node.
func HoldGPUs(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		n := gpus(p)
		if n == 0 || kube.PodEnded(p.Status.Phase) || kube.SurvivesDrain(p) {
			continue
		}
		who := notebook(p)
		if kind, name := controller(p); who == "" && kind != "" {
			who = "of " + kind + " " + name
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintf("pod %s/%s (%d GPU), %s", p.Namespace, p.Name, n, who), ", "))
	}
	slices.Sort(out)
	return out
}

// Notebooks lists the notebooks of a namespace, or of all namespaces if it is empty.
func (w *Work) Notebooks(namespace string) []converge.Loss {
	var out []converge.Loss
	for _, p := range w.pods {
		if who := notebook(p); who != "" && (namespace == "" || p.Namespace == namespace) {
			out = append(out, theirs(p, who))
		}
	}
	slices.SortFunc(out, byText)
	return out
}

// Untolerant is On for only those pods that a taint with the effect NoExecute ends.
func (w *Work) Untolerant(node string, taint corev1.Taint) []converge.Loss {
	left := &Work{}
	for _, p := range w.pods {
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.TolerationSeconds == nil && t.ToleratesTaint(klog.Logger{}, &taint, true)
		})
		if !tolerated {
			left.pods = append(left.pods, p)
		}
	}
	return left.LossesOn(node)
}

// gpus counts the NVIDIA GPUs of a pod.
func gpus(p corev1.Pod) (n int64) {
	for _, k := range p.Spec.Containers {
		for name, count := range k.Resources.Limits {
			if strings.HasPrefix(string(name), "nvidia.com/") {
				n += count.Value()
			}
		}
	}
	return n
}

// Volumes lists the volumes whose data is only on this node, and is lost with its disks.
func (w *Work) Volumes(node string) []converge.Loss {
	var out []converge.Loss
	for _, v := range w.volumes {
		if tied(v, node) {
			out = append(out, volumeLoss(v))
		}
	}
	slices.SortFunc(out, byText)
	return out
}

// tied reports whether a volume can be used only on the node with that name.
func tied(v corev1.PersistentVolume, node string) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return false
	}
	return slices.ContainsFunc(v.Spec.NodeAffinity.Required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(slices.Concat(term.MatchExpressions, term.MatchFields), func(r corev1.NodeSelectorRequirement) bool {
			return r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 && r.Values[0] == node
		})
	})
}

// volumeLoss names a volume by its claim, with its size. A claim that is recreated has another
// volume.
func volumeLoss(v corev1.PersistentVolume) converge.Loss {
	name := "volume " + v.Name
	if ref := v.Spec.ClaimRef; ref != nil {
		name = fmt.Sprintf("volume %s/%s", ref.Namespace, ref.Name)
	}
	if size, ok := v.Spec.Capacity[corev1.ResourceStorage]; ok {
		name += " (" + size.String() + ")"
	}
	return converge.Loss{Text: name, ID: "volume " + v.Name}
}

// The annotations by which Helm recognizes its own objects.
const (
	releaseNote   = "meta.helm.sh/release-name"
	namespaceNote = "meta.helm.sh/release-namespace"
	policyNote    = "helm.sh/resource-policy"
)

// ClaimsOf lists the claims whose data is deleted together with a Helm release.
func (w *Work) ClaimsOf(namespace, release string) []converge.Loss {
	return w.lostClaims(func(c corev1.PersistentVolumeClaim) bool {
		a := c.Annotations
		return release != "" && a[releaseNote] == release && a[namespaceNote] == namespace && a[policyNote] != "keep"
	})
}

// ClaimsLabelled are the claims of a namespace with a label, whose data goes with them.
func (w *Work) ClaimsLabelled(namespace, key, value string) []converge.Loss {
	return w.lostClaims(func(c corev1.PersistentVolumeClaim) bool { return c.Namespace == namespace && c.Labels[key] == value })
}

// lostClaims are claims of a kind whose data goes with them, by name.
func (w *Work) lostClaims(of func(corev1.PersistentVolumeClaim) bool) []converge.Loss {
	var out []converge.Loss
	for _, c := range w.claims {
		if what, lost := w.Claim(c.Namespace, c.Name); lost && of(c) {
			out = append(out, what)
		}
	}
	slices.SortFunc(out, byText)
	return out
}

// Claim says what a claim is bound to, and whether the data goes with the claim.
func (w *Work) Claim(namespace, name string) (what converge.Loss, lost bool) {
	for _, v := range w.volumes {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == namespace && ref.Name == name {
			return volumeLoss(v), v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain
		}
	}
	return converge.Loss{Text: fmt.Sprintf("claim %s/%s", namespace, name)}, false
}
