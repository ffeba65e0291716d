package hub

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Component is the label of users' pods.
const Component = "singleuser-server"

// singleuser are the chart's values about users' servers.
type singleuser struct {
	Image            struct{ Name, Tag string }     `json:"image"`
	Cmd              any                            `json:"cmd"`
	StartTimeout     int                            `json:"startTimeout"`
	NodeSelector     map[string]any                 `json:"nodeSelector"`
	ExtraTolerations []any                          `json:"extraTolerations"`
	ExtraEnv         map[string]any                 `json:"extraEnv"`
	ExtraLabels      map[string]any                 `json:"extraLabels"`
	ExtraPodConfig   map[string]any                 `json:"extraPodConfig"`
	InitContainers   []any                          `json:"initContainers"`
	UID              *int64                         `json:"uid"`
	FsGID            *int64                         `json:"fsGid"`
	CPU              struct{ Limit, Guarantee any } `json:"cpu"`
	Memory           struct{ Limit, Guarantee any } `json:"memory"`
	ExtraResource    struct {
		Limits, Guarantees map[string]any
	} `json:"extraResource"`
	CloudMetadata struct {
		BlockWithIptables bool `json:"blockWithIptables"`
	} `json:"cloudMetadata"`
	Storage struct {
		Type              string `json:"type"`
		Capacity          string `json:"capacity"`
		HomeMountPath     string `json:"homeMountPath"`
		ExtraVolumes      any    `json:"extraVolumes"`
		ExtraVolumeMounts any    `json:"extraVolumeMounts"`
		Static            struct {
			PVCName string `json:"pvcName"`
			SubPath string `json:"subPath"`
		} `json:"static"`
		Dynamic struct {
			StorageClass       *string  `json:"storageClass"`
			PVCNameTemplate    string   `json:"pvcNameTemplate"`
			StorageAccessModes []string `json:"storageAccessModes"`
			SubPath            string   `json:"subPath"`
		} `json:"dynamic"`
	} `json:"storage"`
	ProfileList []profile `json:"profileList"`
}

// profile is one of KubeSpawner's profile_list.
type profile struct {
	Slug        string            `json:"slug"`
	DisplayName string            `json:"display_name"`
	Description string            `json:"description"`
	Default     bool              `json:"default"`
	Override    map[string]any    `json:"kubespawner_override"`
	Options     map[string]option `json:"profile_options"`
}

// option is one of a profile's profile_options.
type option struct {
	DisplayName string `json:"display_name"`
	Choices     map[string]struct {
		DisplayName string         `json:"display_name"`
		Default     bool           `json:"default"`
		Override    map[string]any `json:"kubespawner_override"`
	} `json:"choices"`
	Unlisted struct {
		Enabled  bool           `json:"enabled"`
		Title    string         `json:"display_name_in_choices"`
		Regex    string         `json:"validation_regex"`
		Override map[string]any `json:"kubespawner_override"`
	} `json:"unlisted_choice"`
}

// override is what an option sets, as KubeSpawner finds it (7.1 spawner.py, _load_profile).
func (o option) override(name string, options map[string]any) (map[string]any, error) {
	if typed, _ := options[name+"--unlisted-choice"].(string); typed != "" {
		at, err := regexp.Compile("^(?:" + o.Unlisted.Regex + ")") // re.match
		switch {
		case !o.Unlisted.Enabled:
			return nil, fmt.Errorf("Received unlisted_choice for %s without being enabled.", name) //nolint:staticcheck // KubeSpawner's own words
		case err != nil || !at.MatchString(typed):
			return nil, fmt.Errorf("Received unlisted_choice for %s that failed validation regex.", name) //nolint:staticcheck // KubeSpawner's own words
		}
		return replaced(table(o.Unlisted.Override), strings.NewReplacer("{value}", typed)).(map[string]any), nil
	}
	chosen, _ := options[name].(string)
	for key, c := range o.Choices {
		if key == chosen || chosen == "" && c.Default {
			return table(c.Override), nil
		}
	}
	return nil, fmt.Errorf("KeyError: %q", chosen)
}

// replaced fills in all strings (kubespawner/utils.py, recursive_format, without names).
func replaced(v any, with *strings.Replacer) any {
	switch v := v.(type) {
	case string:
		return with.Replace(v)
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = replaced(value, with)
		}
		return out
	}
	return v
}

func (p profile) slug() string {
	return cmp.Or(p.Slug, strings.ReplaceAll(strings.ToLower(p.DisplayName), " ", "-"))
}

// traits are KubeSpawner's, as the chart sets them.
func (h *hub) traits() map[string]any {
	v := h.values.Singleuser
	image := v.Image.Name
	if v.Image.Tag != "" {
		image += ":" + v.Image.Tag
	}
	t := map[string]any{
		"image": image, "cmd": v.Cmd, "node_selector": table(v.NodeSelector), "environment": table(v.ExtraEnv), "extra_labels": table(v.ExtraLabels),
		"extra_pod_config": table(v.ExtraPodConfig), "init_containers": v.InitContainers,
		"tolerations": slices.Concat(h.values.Scheduling.UserPods.Tolerations, v.ExtraTolerations),
		"cpu_limit":   v.CPU.Limit, "cpu_guarantee": v.CPU.Guarantee, "mem_limit": v.Memory.Limit, "mem_guarantee": v.Memory.Guarantee,
		"extra_resource_limits": table(v.ExtraResource.Limits), "extra_resource_guarantees": table(v.ExtraResource.Guarantees),
		"volumes": byName(v.Storage.ExtraVolumes), "volume_mounts": byName(v.Storage.ExtraVolumeMounts),
	}
	return t
}

func table(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(m)
}

// byName makes a table of a list, which the chart takes as well.
func byName(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return table(v)
	case []any:
		out := map[string]any{}
		for n, e := range v {
			out[strconv.Itoa(n)] = e
		}
		return out
	}
	return map[string]any{}
}

// tell adds an event of a server.
func (h *hub) tell(s *hubServer, e hubEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.events = append(s.events, e)
	close(s.news)
	s.news = make(chan struct{})
}

// spawn starts a server and follows it until it is ready or has failed.
func (h *hub) spawn(ctx context.Context, u *hubUser, s *hubServer) {
	h.tell(s, hubEvent{Message: "Server requested"})
	timeout := time.Duration(cmp.Or(h.values.Singleuser.StartTimeout, 300)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := h.tryToSpawn(ctx, u, s)
	if err == nil {
		h.mu.Lock()
		s.ready, s.pending = true, ""
		h.mu.Unlock()
		h.serve(s)
		h.tell(s, hubEvent{Progress: 100, Message: "Server ready at /user/" + u.name + "/", Ready: true, URL: "/user/" + u.name + "/"})
		return
	}
	if ctx.Err() != nil && h.ctx.Err() == nil {
		err = fmt.Errorf("Timeout: pod %s/%s did not start in %d seconds", h.Pod.Namespace, s.pod, int(timeout.Seconds())) //nolint:staticcheck // KubeSpawner's own words
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if s.pod != "" {
		_ = h.Client.CoreV1().Pods(h.Pod.Namespace).Delete(end, s.pod, metav1.DeleteOptions{})
	}
	h.mu.Lock()
	if u.server == s {
		u.server, u.failed = nil, err.Error()
	}
	h.mu.Unlock()
	h.tell(s, hubEvent{Progress: 100, Message: "Spawn failed: " + err.Error(), Failed: true})
}

func (h *hub) tryToSpawn(ctx context.Context, u *hubUser, s *hubServer) error {
	traits, err := h.choose(u.name, s.options)
	if err != nil {
		return err
	}
	claim, err := h.home(ctx, u.name)
	if err != nil {
		return err
	}
	pod, err := h.podOf(u.name, claim, traits)
	if err != nil {
		return err
	}
	h.mu.Lock()
	s.pod = pod.Name
	h.mu.Unlock()
	for {
		made, err := h.Client.CoreV1().Pods(h.Pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // the previous one is being deleted
			if err := converge.Pause(ctx, 200*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("(%s) %w", apierrors.ReasonForError(err), err)
		}
		if err := h.follow(ctx, s, made.UID); err != nil {
			return err
		}
		return h.keepKey(ctx, made)
	}
}

// follow tells a pod's events until it is Ready.
func (h *hub) follow(ctx context.Context, s *hubServer, id types.UID) error {
	seen := map[types.UID]bool{}
	for {
		events, err := h.Client.CoreV1().Events(h.Pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod,involvedObject.uid=" + string(id)})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if !seen[e.UID] {
				seen[e.UID] = true
				at := cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
				h.tell(s, hubEvent{Progress: min(90, 10*len(seen)), Message: at.UTC().Format(time.RFC3339) + " [" + e.Type + "] " + e.Message})
			}
		}
		pod, err := h.Client.CoreV1().Pods(h.Pod.Namespace).Get(ctx, s.pod, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case traffic.Ready(pod):
			return nil
		case pod.Status.Phase == corev1.PodFailed:
			return fmt.Errorf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		}
		if err := converge.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// stop stops a server, and removes it when its pod is gone.
func (h *hub) stop(ctx context.Context, u *hubUser, s *hubServer) {
	pods := h.Client.CoreV1().Pods(h.Pod.Namespace)
	_ = pods.Delete(ctx, s.pod, metav1.DeleteOptions{})
	for ctx.Err() == nil {
		if _, err := pods.Get(ctx, s.pod, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		_ = converge.Pause(ctx, 100*time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.server == s {
		u.server = nil
	}
}

// claimName is KubeSpawner's pvc_name_template.
func (h *hub) claimName(user string) string {
	name := cmp.Or(h.values.Singleuser.Storage.Dynamic.PVCNameTemplate, "claim-{user_server}")
	return templated(name, user)
}

// templated fills in a name; users' names in the lab are plain, so slugs are the
// names themselves.
func templated(s, user string) string { return templates(user).Replace(s) }

func templates(user string) *strings.Replacer {
	return strings.NewReplacer("{user_server}", user, "{username}", user, "{safe_username}", user, "{unescaped_username}", user, "{servername}", "", "{escaped_user_server}", user)
}

// home makes the claim of a user's home, where homes are dynamic.
func (h *hub) home(ctx context.Context, user string) (string, error) {
	storage := h.values.Singleuser.Storage
	switch storage.Type {
	case "none":
		return "", nil
	case "static":
		return storage.Static.PVCName, nil
	}
	size, err := resource.ParseQuantity(cmp.Or(storage.Capacity, "10Gi"))
	if err != nil {
		return "", fmt.Errorf("singleuser.storage.capacity: %w", err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: h.claimName(user), Namespace: h.Pod.Namespace, Labels: map[string]string{"app": "jupyterhub", "component": "singleuser-storage"},
			Annotations: map[string]string{"hub.jupyter.org/username": user}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: storage.Dynamic.StorageClass,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	for _, mode := range storage.Dynamic.StorageAccessModes {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(mode))
	}
	if len(claim.Spec.AccessModes) == 0 {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	_, err = h.Client.CoreV1().PersistentVolumeClaims(h.Pod.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	return claim.Name, nil
}

// deleteHome deletes the home of a removed user: KubeSpawner.delete_pvc.
func (h *hub) deleteHome(ctx context.Context, user string) error {
	if h.values.Singleuser.Storage.Type != "dynamic" {
		return nil
	}
	err := h.Client.CoreV1().PersistentVolumeClaims(h.Pod.Namespace).Delete(ctx, h.claimName(user), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
