package jupyterhub

import (
	"cmp"
	_ "embed" // the snippets that the hub runs
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
)

//go:embed files/profiles.py
var profilesSnippet string

//go:embed files/passwords.py
var passwordsSnippet string

//go:embed files/login.py
var loginSnippet string

//go:embed files/culler.py
var cullerScript string

//go:embed files/bundle.sh
var bundleScript string

// cullerPath is where the hub's container finds cullerScript.
const cullerPath = "/usr/local/etc/jupyterhub/homelab_culler.py"

// startTimeout is how long a server may take to start. The chart's 5 minutes are too short for
// the first pull of an image with CUDA.
const startTimeout = 20 * time.Minute

// Values returns the values that differ from the chart's defaults, without secrets. The error
// is [Problems], with all mistakes.
func (h Hub) Values() (map[string]any, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	values := map[string]any{
		"hub":        h.hub(),
		"proxy":      h.proxy(),
		"singleuser": h.singleuser(),
		// Its scheduler packs users onto as few nodes as possible, for clouds that then remove
		// nodes; it is also a separate kube-scheduler, six minor versions behind (values.yaml:
		// userScheduler.image.tag v1.30).
		"scheduling": map[string]any{
			"userScheduler":   map[string]any{"enabled": false},
			"userPlaceholder": map[string]any{"enabled": false},
		},
		"prePuller": h.prePuller(),
		"cull":      h.cull(),
	}
	h.ingress(values)
	if custom := h.custom(); len(custom) > 0 {
		values["custom"] = map[string]any{"homelab": custom}
	}
	return values, nil
}

func (h Hub) hub() map[string]any {
	v := map[string]any{
		"existingSecret": secretName,
		"config":         login{h}.authConfig(),
		"db":             h.database(),
		"services":       h.services(),
		"loadRoles":      h.roles(),
	}
	spawner := map[string]any{}
	if overrides := h.groupOverrides(); len(overrides) > 0 {
		spawner["group_overrides"] = overrides
	}
	if extra := h.Models.container(); extra != nil {
		spawner["extra_container_config"] = extra
	}
	if len(spawner) > 0 {
		v["config"].(map[string]any)["KubeSpawner"] = spawner
	}
	if h.Announcement != "" { // the hub's page.html takes it for HTML
		text := strings.ReplaceAll(html.EscapeString(strings.TrimSpace(h.Announcement)), "\n", "<br>")
		v["templateVars"] = map[string]any{"announcement": text}
	}
	if bear := tolerate(h.Taints); len(bear) > 0 {
		v["tolerations"] = tolerationValues(bear)
	}
	if snippets := h.snippets(); len(snippets) > 0 {
		v["extraConfig"] = snippets
	}
	if h.ownCuller() {
		v["extraFiles"] = map[string]any{"homelab-culler": map[string]any{"mountPath": cullerPath, "stringData": cullerScript}}
	}
	if !isOn(h.Isolate) {
		v["networkPolicy"] = map[string]any{"enabled": false}
	}
	if len(h.bundle()) > 0 {
		v["extraVolumes"] = slices.Collect(mapValues(caVolumes()))
		v["extraVolumeMounts"] = slices.Collect(mapValues(caMounts()))
		v["extraEnv"] = caEnv()
		v["lifecycle"] = caHook()
	}
	if env := databaseEnv(h.Database); len(env) > 0 {
		given, _ := v["extraEnv"].(map[string]any)
		maps.Copy(env, given)
		v["extraEnv"] = env
	}
	return v
}

// snippets are Python that the hub runs after the chart's configuration, in the
// order of their names.
func (h Hub) snippets() map[string]any {
	s := map[string]any{}
	if h.Auth.Kind == spec.AuthDummy {
		s["10-homelab-passwords"] = passwordsSnippet
	}
	if h.SignsIn {
		s["15-homelab-login"] = loginSnippet
	}
	if len(h.profileGroups()) > 0 {
		s["20-homelab-profiles"] = profilesSnippet
	}
	if h.Queue != "" {
		s["30-homelab-queue"] = queueSnippet
	}
	return s
}

// services and roles are dictionaries, which Helm merges by key, so those of others stay.
func (h Hub) services() map[string]any {
	s := map[string]any{verifyService: map[string]any{}}
	if h.ownCuller() {
		s[cullService] = map[string]any{"command": anys([]string{"python3", cullerPath})}
	}
	return s
}

func (h Hub) roles() map[string]any {
	r := map[string]any{verifyService: map[string]any{
		"description": "Starts and stops servers of one user, to check that the hub works",
		"scopes":      anys(verifyScopes()),
		"services":    []any{verifyService},
	}}
	if h.ownCuller() {
		r[cullService] = map[string]any{
			"description": "Stops idle servers",
			"scopes":      anys([]string{"list:users", "read:users:activity", "read:servers", "delete:servers"}),
			"services":    []any{cullService},
		}
	}
	return r
}

func (h Hub) proxy() map[string]any {
	service := map[string]any{}
	switch {
	case h.Ingress.Kind != ByLoadBalancer:
		service["type"] = "ClusterIP"
	case h.Ingress.Address.IsValid():
		service["loadBalancerIP"] = h.Ingress.Address.String()
	}
	if h.Ingress.Kind == ByLoadBalancer && len(h.Ingress.Annotations) > 0 {
		service["annotations"] = texts(h.Ingress.Annotations)
	}
	v := map[string]any{}
	if len(service) > 0 {
		v["service"] = service
	}
	chp := map[string]any{}
	if bear := tolerate(h.Taints); len(bear) > 0 {
		chp["tolerations"] = tolerationValues(bear)
	}
	if !isOn(h.Isolate) {
		chp["networkPolicy"] = map[string]any{"enabled": false}
	}
	if len(chp) > 0 {
		v["chp"] = chp
	}
	if h.Ingress.Kind == ByLoadBalancer && h.Ingress.TLSSecret != "" {
		v["https"] = map[string]any{"enabled": true, "type": "secret", "secret": map[string]any{"name": h.Ingress.TLSSecret}}
	}
	return v
}

func (h Hub) ingress(values map[string]any) {
	switch cmp.Or(h.Ingress.Kind, ByIngress) {
	case ByIngress:
		v := map[string]any{"enabled": true, "hosts": []any{h.Hostname}}
		if h.Ingress.Class != "" {
			v["ingressClassName"] = h.Ingress.Class
		}
		if len(h.Ingress.Annotations) > 0 {
			v["annotations"] = texts(h.Ingress.Annotations)
		}
		if h.Ingress.TLSSecret != "" {
			v["tls"] = []any{map[string]any{"hosts": []any{h.Hostname}, "secretName": h.Ingress.TLSSecret}}
		}
		values["ingress"] = v
	case ByGateway:
		gateway := map[string]any{"name": h.Ingress.Gateway}
		if h.Ingress.GatewayNamespace != "" {
			gateway["namespace"] = h.Ingress.GatewayNamespace
		}
		if h.Ingress.GatewayListener != "" {
			gateway["sectionName"] = h.Ingress.GatewayListener
		}
		v := map[string]any{"enabled": true, "hostnames": []any{h.Hostname}, "gateway": gateway}
		if len(h.Ingress.Annotations) > 0 {
			v["annotations"] = texts(h.Ingress.Annotations)
		}
		values["httpRoute"] = v
	}
}

func (h Hub) singleuser() map[string]any {
	name, tag := splitImage(h.first().Image)
	policy := map[string]any{}
	if !isOn(h.Isolate) {
		policy["enabled"] = false
	}
	egress := h.Models.egress()
	if len(h.Reach) > 0 {
		to := make([]any, 0, len(h.Reach))
		for _, prefix := range h.Reach {
			to = append(to, map[string]any{"ipBlock": map[string]any{"cidr": prefix.Masked().String()}})
		}
		egress = append(egress, map[string]any{"to": to})
	}
	if len(egress) > 0 {
		policy["egress"] = egress
	}
	v := map[string]any{
		"image": map[string]any{"name": name, "tag": tag},
		// Off: the init container needs iptables and a privileged pod, and if it fails no
		// server starts. There is no such metadata service here, and the network policy denies
		// its address anyway.
		"cloudMetadata": map[string]any{"blockWithIptables": false},
		"startTimeout":  int(startTimeout / time.Second),
		"storage":       h.storage(),
		"profileList":   h.profileList(),
	}
	if len(policy) > 0 {
		v["networkPolicy"] = policy
	}
	env := h.Models.env()
	if len(h.bundle()) > 0 {
		maps.Copy(env, caEnv())
		v["lifecycleHooks"] = caHook()
	}
	if h.SSH {
		maps.Copy(env, sshEnv())
	}
	if len(env) > 0 {
		v["extraEnv"] = env
	}
	return v
}

func (h Hub) profileList() []any {
	list := make([]any, 0, len(h.Profiles))
	for _, p := range h.Profiles {
		list = append(list, h.entry(p))
	}
	return list
}

// first is the profile that is preselected.
func (h Hub) first() spec.HubProfile {
	if i := slices.IndexFunc(h.Profiles, func(p spec.HubProfile) bool { return p.Default }); i >= 0 {
		return h.Profiles[i]
	}
	return h.Profiles[0]
}

// splitImage splits a reference at its last colon, which reverses how the chart joins it; in a
// digest that is the colon within it.
func splitImage(image string) (name, tag string) {
	i := strings.LastIndexByte(image, ':')
	if i < 0 || strings.Contains(image[i:], "/") {
		return image, "latest"
	}
	return image[:i], image[i+1:]
}

// prePuller: the hook delays every upgrade until all nodes have all images, which with images
// of 10 GB ends in a timeout. The DaemonSet pulls them without a delay.
func (h Hub) prePuller() map[string]any {
	v := map[string]any{
		"hook":       map[string]any{"enabled": false},
		"continuous": map[string]any{"enabled": h.PrePull},
	}
	if !h.PrePull {
		return v
	}
	taints := slices.Clone(h.Taints)
	for _, in := range h.Pools {
		taints = append(taints, in.Taints...)
	}
	if bear := tolerate(taints); len(bear) > 0 {
		v["extraTolerations"] = tolerationValues(bear)
	}
	return v
}

// cullService is the name of our own culler in the hub.
const cullService = "homelab-culler"

// ownCuller says whether some users' servers are never stopped, or those of a profile at another time. The
// chart's culler (version 1.4 of jupyterhub-idle-culler) cannot do that, so ours replaces it.
func (h Hub) ownCuller() bool {
	return isOn(h.Cull.Enabled) && (len(h.Cull.Exempt) > 0 || len(idleProfiles(h.Profiles)) > 0)
}

// idleProfiles are the seconds after which servers of profiles are stopped that have a time of their own.
func idleProfiles(profiles []spec.HubProfile) map[string]any {
	v := map[string]any{}
	for _, p := range profiles {
		if p.Idle > 0 {
			v[p.Name] = seconds(p.Idle)
		}
	}
	return v
}

func (h Hub) cull() map[string]any {
	if !isOn(h.Cull.Enabled) || h.ownCuller() {
		return map[string]any{"enabled": false}
	}
	v := map[string]any{"enabled": true, "every": seconds(every(h.Cull)), "timeout": seconds(idle(h.Cull))}
	if h.Cull.MaxAge > 0 {
		v["maxAge"] = seconds(h.Cull.MaxAge)
	}
	return v
}

// isOn reports whether a switch is on that is on by default.
func isOn(s spec.Switch) bool { return s.Or(true).IsOn() }

func every(c spec.HubCull) time.Duration { return cmp.Or(c.Every, 5*time.Minute) }
func idle(c spec.HubCull) time.Duration  { return cmp.Or(c.Idle, time.Hour) }

func seconds(d time.Duration) int { return int(d / time.Second) }

// custom is the input of our snippets: the chart passes it to the hub unchanged.
func (h Hub) custom() map[string]any {
	v := map[string]any{}
	if groups := h.profileGroups(); len(groups) > 0 {
		v["profileGroups"] = groups
		v["verifyUser"] = verifyUser
	}
	if h.Queue != "" {
		v["queue"] = h.queue()
	}
	if h.ownCuller() {
		v["cull"] = map[string]any{
			"every":    seconds(every(h.Cull)),
			"timeout":  seconds(idle(h.Cull)),
			"maxAge":   seconds(h.Cull.MaxAge),
			"exempt":   anys(h.Cull.Exempt),
			"profiles": idleProfiles(h.Profiles),
			"default":  h.first().Name,
		}
	}
	return v
}

func (h Hub) profileGroups() map[string]any {
	v := map[string]any{}
	for _, p := range h.Profiles {
		if len(p.Groups) > 0 {
			v[p.Name] = anys(p.Groups)
		}
	}
	return v
}
