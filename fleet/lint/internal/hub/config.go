package hub

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// sections: jupyterhub_config.py, where it reads hub.config.
func (f *finder) sections() {
	for _, name := range f.keys("hub", "config") {
		section := f.get("hub", "config", name)
		if section.set() && !unicode.IsUpper([]rune(name + "x")[0]) {
			f.add(true, section, "hub.config has the classes of JupyterHub; "+name+" may belong beside config, not below it",
				"the hub does not start: hub.config.%s is not a class: names of classes begin with a capital letter", name)
		}
	}
	if services := f.get("hub", "config", "JupyterHub", "services"); services.set() {
		f.add(true, services, "write them as hub.services", "hub.config.JupyterHub.services is not used: the chart removes it")
	}
	if roles := f.get("hub", "config", "JupyterHub", "load_roles"); roles.set() && f.is(true, "cull", "enabled") {
		f.add(true, roles, "write them as hub.loadRoles, to which the chart adds its own",
			"hub.config.JupyterHub.load_roles replaces the chart's roles: the service that stops idle servers may not do so any more")
	}
}

// classes are names of authenticators in the hub's image, which JupyterHub's and OAuthenticator's
// packages register, and their classes.
var classes = map[string]string{
	"auth0": "Auth0OAuthenticator", "azuread": "AzureAdOAuthenticator", "bitbucket": "BitbucketOAuthenticator", "cilogon": "CILogonOAuthenticator",
	"generic-oauth": "GenericOAuthenticator", "github": "GitHubOAuthenticator", "gitlab": "GitLabOAuthenticator", "globus": "GlobusOAuthenticator",
	"google": "GoogleOAuthenticator", "mediawiki": "MWOAuthenticator", "openshift": "OpenShiftOAuthenticator",
	"dummy": "DummyAuthenticator", "shared-password": "SharedPasswordAuthenticator", "null": "NullAuthenticator",
}

func known(class string) bool {
	for _, c := range classes {
		if c == class {
			return true
		}
	}
	return false
}

// authenticator: the settings of another class than the hub's are not read, and allow_all is
// asked before any list (jupyterhub/auth.py get_authenticated_user).
func (f *finder) authenticator() {
	if f.maySetInPython("authenticator") || f.maySetInPython("Authenticator") {
		return
	}
	chosen := cmp.Or(f.get("hub", "config", "JupyterHub", "authenticator_class").Str(), "dummy") // the chart's default
	class := cmp.Or(classes[chosen], chosen[strings.LastIndexByte(chosen, '.')+1:])
	base := strings.TrimPrefix(class, "Local")
	mine := []string{class, base}
	if strings.HasSuffix(base, "OAuthenticator") {
		mine = append(mine, "OAuthenticator")
	}
	mine = slices.Compact(append(mine, "Authenticator"))
	for _, name := range f.keys("hub", "config") {
		if section := f.get("hub", "config", name); section.set() && len(section.Fields) > 0 && known(base) && known(name) && !slices.Contains(mine, name) {
			f.add(true, section, "set hub.config.JupyterHub.authenticator_class to the one that is meant, or remove these",
				"hub.config.%s is not used: the hub's authenticator_class is %s", name, chosen)
		}
	}
	f.everybody(mine)
}

// everybody: the section of the most special class that has allow_all decides.
func (f *finder) everybody(sections []string) {
	i := slices.IndexFunc(sections, func(name string) bool { return f.get("hub", "config", name, "allow_all").set() })
	if i < 0 || f.get("hub", "config", sections[i], "allow_all").Str() != "true" {
		return
	}
	for _, name := range sections {
		for _, key := range f.keys("hub", "config", name) {
			list := f.get("hub", "config", name, key)
			if strings.HasPrefix(key, "allowed_") && len(list.list()) > 0 {
				f.add(true, list, "remove allow_all, or this list", "hub.config.%s.%s keeps nobody out: hub.config.%s.allow_all lets in everybody who logs in", name, key, sections[i])
			}
		}
	}
}

// spawner has the traits of KubeSpawner that the chart sets from its own values
// (jupyterhub_config.py): below singleuser.
var spawner = map[string]string{
	"image": "image", "image_pull_policy": "image.pullPolicy", "pod_name_template": "podNameTemplate", "start_timeout": "startTimeout",
	"events_enabled": "events", "extra_labels": "extraLabels", "extra_annotations": "extraAnnotations", "uid": "uid", "fs_gid": "fsGid",
	"service_account": "serviceAccountName", "node_selector": "nodeSelector", "lifecycle_hooks": "lifecycleHooks", "init_containers": "initContainers",
	"extra_containers": "extraContainers", "mem_limit": "memory.limit", "mem_guarantee": "memory.guarantee", "cpu_limit": "cpu.limit",
	"cpu_guarantee": "cpu.guarantee", "extra_resource_limits": "extraResource.limits", "extra_resource_guarantees": "extraResource.guarantees",
	"environment": "extraEnv", "profile_list": "profileList", "extra_pod_config": "extraPodConfig", "tolerations": "extraTolerations",
	"cmd": "cmd", "default_url": "defaultUrl",
}

// overridden: hub.config is read after singleuser and replaces it; settings of Spawner are below
// those of KubeSpawner, which the chart always writes.
func (f *finder) overridden() {
	for _, class := range []string{"KubeSpawner", "Spawner"} {
		for _, trait := range f.keys("hub", "config", class) {
			set := f.get("hub", "config", class, trait)
			key := spawner[trait]
			if !set.set() || key == "" {
				continue
			}
			own := f.get(append([]string{"singleuser"}, strings.Split(key, ".")...)...)
			always := !slices.Contains([]string{"pod_name_template", "image_pull_policy", "service_account", "mem_limit", "cpu_limit", "cpu_guarantee", "tolerations"}, trait)
			switch {
			case class == "Spawner" && trait != "cmd" && trait != "default_url":
				if own.set() || always {
					f.add(true, set, "write singleuser."+key, "hub.config.Spawner.%s is not used: the chart sets the same for KubeSpawner, from singleuser.%s", trait, key)
				}
			case own.set() && (own.Text != "" || len(own.Fields)+len(own.Items) > 0):
				f.add(false, own, "keep one of them", "singleuser.%s is not used: hub.config.%s.%s replaces it", key, class, trait)
			}
		}
	}
	for _, trait := range []string{"volumes", "volume_mounts"} {
		if set := f.get("hub", "config", "KubeSpawner", trait); set.set() && f.get("singleuser", "storage", "type").Str() != "none" {
			f.add(true, set, "write singleuser.storage.extraVolumes and extraVolumeMounts, or set singleuser.storage.type: none",
				"hub.config.KubeSpawner.%s replaces those of singleuser.storage: servers lose their home folders", trait)
		}
	}
}
