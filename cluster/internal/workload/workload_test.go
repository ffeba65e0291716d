package workload

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
)

// podOn is a pod of some owner's; what nobody makes again has none.
func podOn(node, name, owner string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.NodeName = node
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "x", Controller: new(true)}}
	}
	if change != nil {
		change(&p)
	}
	return p
}

func notebookOf(user, server string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["component"] = "singleuser-server"
		p.Annotations[userNote], p.Annotations[serverNote] = user, server
	}
}

func TestWhoseWorkEnds(t *testing.T) {
	gpus := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}}
	}
	owned := func(p *corev1.Pod) { // which goes with its owner, and is not made again by it
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ConfigMap", Name: "x"}}
	}
	w := &Work{pods: []corev1.Pod{
		podOn("a", "jupyter-student3", "", notebookOf("student3", "")), podOn("a", "jupyter-teacher--big", "", notebookOf("teacher", "big")),
		podOn("a", "train", "Job", gpus), podOn("a", "by-hand", "", nil), podOn("a", "of-a-node", "", owned), podOn("a", "web-1", "ReplicaSet", nil),
		podOn("a", "web-2", "ReplicaSet", nil), podOn("a", "agent", "DaemonSet", gpus),
		podOn("a", "static", "Node", func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" }),
		podOn("b", "web-3", "ReplicaSet", nil), podOn("b", "fake", "Job", func(p *corev1.Pod) { p.Annotations[userNote] = "no hub's" }),
		podOn("c", "web-4", "ReplicaSet", nil),
	}}
	assert.Equal(t, []string{
		"the notebook big of teacher", "the notebook of student3", "pod ns/by-hand, which nobody makes again", "pod ns/of-a-node, which nobody makes again", "pod ns/train (2 GPU)", "2 other pods",
	}, converge.LossTexts(w.LossesOn("a")))
	assert.Equal(t, []string{"2 pods that are made again"}, converge.LossTexts(w.LossesOn("b")))
	assert.Equal(t, []string{"1 pod that is made again"}, converge.LossTexts(w.LossesOn("c")))
	assert.Empty(t, w.Ends("c"))
	assert.Equal(t, w.LossesOn("a")[:5], w.Ends("a"))
	assert.Empty(t, w.LossesOn("d"))
	for _, node := range []string{"a", "b", "c"} {
		all := w.LossesOn(node)
		assert.True(t, all[len(all)-1].Counted, node)
	}
	assert.False(t, slices.ContainsFunc(w.Ends("a"), func(l converge.Loss) bool { return l.Counted }))
	assert.Equal(t, []string{"the notebook big of teacher", "the notebook of student3"}, converge.LossTexts(w.Notebooks("")))
	assert.Empty(t, w.Notebooks("another"))
}

func TestATaintEndsWhatDoesNotTolerateIt(t *testing.T) {
	with := func(tolerations ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	w := &Work{pods: []corev1.Pod{
		podOn("a", "none", "", nil),
		podOn("a", "same", "", with(corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute})),
		podOn("a", "key", "", with(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})),
		podOn("a", "all", "", with(corev1.Toleration{Operator: corev1.TolerationOpExists})),
		podOn("a", "other", "", with(corev1.Toleration{Key: "k", Value: "w"})),
		podOn("a", "effect", "", with(corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule})),
	}}
	assert.Equal(t, []string{
		"pod ns/effect, which nobody makes again", "pod ns/none, which nobody makes again", "pod ns/other, which nobody makes again",
	}, converge.LossTexts(w.Untolerant("a", corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute})))
	w = &Work{pods: []corev1.Pod{
		podOn("a", "more", "", with(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpGt, Value: "5"})),
		podOn("a", "less", "", with(corev1.Toleration{Key: "load", Operator: corev1.TolerationOpLt, Value: "5"})),
		podOn("a", "for a while", "", with(corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(60))})),
	}}
	ended := converge.LossTexts(w.Untolerant("a", corev1.Taint{Key: "load", Value: "7", Effect: corev1.TaintEffectNoExecute}))
	assert.Len(t, ended, 2, "a taint's value may be compared, and what tolerates it for a while ends then")
	assert.Contains(t, ended, "pod ns/for a while, which nobody makes again")
}

func TestWhichVolumesGoWithANode(t *testing.T) {
	on := func(nodes ...string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}},
		}}}}
	}
	volume := func(name, claim string, where *corev1.VolumeNodeAffinity, keep corev1.PersistentVolumeReclaimPolicy) corev1.PersistentVolume {
		v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.NodeAffinity, v.Spec.PersistentVolumeReclaimPolicy = where, keep
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		if claim != "" {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "jupyterhub", Name: claim}
		}
		return v
	}
	claim := func(name string, notes map[string]string) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "jupyterhub", Name: name, Annotations: notes}}
	}
	hub := map[string]string{releaseNote: "jupyterhub", namespaceNote: "jupyterhub"}
	w := &Work{
		volumes: []corev1.PersistentVolume{
			volume("pv1", "claim-teacher", on("a"), corev1.PersistentVolumeReclaimDelete), volume("pv2", "", on("a"), corev1.PersistentVolumeReclaimRetain),
			volume("pv3", "claim-student3", on("a", "b"), corev1.PersistentVolumeReclaimDelete), volume("pv4", "hub-db-dir", nil, corev1.PersistentVolumeReclaimDelete),
			volume("pv5", "kept", nil, corev1.PersistentVolumeReclaimRetain),
		},
		claims: []corev1.PersistentVolumeClaim{
			claim("claim-teacher", nil), claim("claim-student3", map[string]string{releaseNote: "jupyterhub", namespaceNote: "another"}),
			claim("claim-student3", map[string]string{releaseNote: "another", namespaceNote: "jupyterhub"}),
			claim("claim-student3", map[string]string{releaseNote: "jupyterhub", namespaceNote: "jupyterhub", policyNote: "keep"}),
			claim("claim-student3", map[string]string{namespaceNote: "jupyterhub"}), claim("hub-db-dir", hub), claim("kept", hub),
		},
	}
	assert.Equal(t, []string{"volume jupyterhub/claim-teacher (10Gi)", "volume pv2 (10Gi)"}, converge.LossTexts(w.Volumes("a")))
	assert.Empty(t, w.Volumes("b"), "it can be used on a, too")
	assert.Equal(t, []string{"volume jupyterhub/hub-db-dir (10Gi)"}, converge.LossTexts(w.ClaimsOf("jupyterhub", "jupyterhub")))
	assert.Empty(t, w.ClaimsOf("jupyterhub", ""))
	what, lost := w.Claim("jupyterhub", "kept")
	assert.Equal(t, "volume jupyterhub/kept (10Gi)", what.Text)
	assert.False(t, lost)
	what, lost = w.Claim("jupyterhub", "none")
	assert.Equal(t, converge.Loss{Text: "claim jupyterhub/none"}, what)
	assert.False(t, lost)
	_, lost = w.Claim("another", "hub-db-dir")
	assert.False(t, lost)
	notIn := on("a")
	notIn.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = corev1.NodeSelectorOpNotIn
	w.volumes = []corev1.PersistentVolume{
		volume("not", "", notIn, corev1.PersistentVolumeReclaimDelete), volume("anywhere", "", &corev1.VolumeNodeAffinity{}, corev1.PersistentVolumeReclaimDelete),
	}
	assert.Empty(t, w.Volumes("a"))
}

// Pods that hold GPUs are named with their owners; what belongs to the node is not.
func TestWhoHoldsGPUs(t *testing.T) {
	gpu := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}}}}
	}
	mine := func(p *corev1.Pod) {
		gpu(p)
		p.Labels["component"], p.Annotations[userNote] = "singleuser-server", "teacher"
	}
	pods := []corev1.Pod{
		podOn("wk1", "web", "ReplicaSet", nil), podOn("wk1", "train-0", "Job", gpu), podOn("wk1", "jupyter-teacher", "", mine), podOn("wk1", "lone", "", gpu),
		podOn("wk1", "plugin", "DaemonSet", gpu),
	}
	assert.Equal(t, []string{
		"pod ns/jupyter-teacher (1 GPU), the notebook of teacher", "pod ns/lone (1 GPU)", "pod ns/train-0 (1 GPU), of Job " + pods[1].OwnerReferences[0].Name,
	}, HoldGPUs(pods))
	assert.Equal(t, []string{"1 pod that is made again"}, converge.LossTexts((&Work{pods: pods}).WithoutGPUs().LossesOn("wk1")))
}

// Pods of one Deployment are the same work, whatever their ReplicaSets are called.
func TestThePodsOfOneController(t *testing.T) {
	pod := func(name, kind, owner, hash string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"pod-template-hash": hash}}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}}
		}
		return p
	}
	assert.Equal(t, madeBy(pod("a-1-x", "ReplicaSet", "a-1", "1")), madeBy(pod("a-2-y", "ReplicaSet", "a-2", "2")))
	assert.Equal(t, "Deployment ns/a", madeBy(pod("a-1-x", "ReplicaSet", "a-1", "1")))
	assert.Equal(t, "Job ns/train-1", madeBy(pod("train-1-z", "Job", "train-1", "1")), "a Job's name is its own")
	assert.Equal(t, "ReplicaSet ns/c-", madeBy(pod("c-x", "ReplicaSet", "c-", "")))
	assert.Equal(t, "ReplicaSet ns/b", madeBy(pod("b-x", "ReplicaSet", "b", "")))
	assert.Equal(t, "Pod ns/lone", madeBy(pod("lone", "", "", "")))
}
