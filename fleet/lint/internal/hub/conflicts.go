package hub

import (
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Conflicts finds settings that exclude each other, or of which the hub uses only one. With
// partial there are other values, which are not known.
func (v Values) Conflicts(partial bool) []Finding {
	f := &finder{Values: v}
	if !partial {
		f.metadataServer()
		f.https()
		f.database()
		f.storage()
		f.placeholders()
	}
	if !partial || v.get("hub", "config", "JupyterHub", "authenticator_class").set() {
		f.authenticator()
	}
	f.extraFiles()
	f.sections()
	f.overridden()
	f.profiles()
	return f.out
}

// metadataServer: the chart's own check (templates/NOTES.txt). Both others are on by default.
func (f *finder) metadataServer() {
	allowed := f.get("singleuser", "networkPolicy", "egressAllowRules", "cloudMetadataServer")
	if allowed.Str() == "true" && f.is(true, "singleuser", "networkPolicy", "enabled") && f.is(true, "singleuser", "cloudMetadata", "blockWithIptables") {
		f.add(true, allowed, "set singleuser.cloudMetadata.blockWithIptables: false, or remove this",
			"the chart refuses egressAllowRules.cloudMetadataServer beside singleuser.cloudMetadata.blockWithIptables, which is on unless it is set to false")
	}
}

// extraFiles: templates/_helpers.tpl, jupyterhub.extraFiles.validate-file.
func (f *finder) extraFiles() {
	for _, part := range []string{"hub", "singleuser"} {
		for _, key := range f.keys(part, "extraFiles") {
			file := f.get(part, "extraFiles", key)
			if !file.set() || file.AsMap() == nil {
				continue
			}
			mount := f.get(part, "extraFiles", key, "mountPath").Str()
			var has []string
			for _, field := range []string{"data", "stringData", "binaryData"} {
				if content := f.get(part, "extraFiles", key, field); content.set() && (content.Text != "" || len(content.Fields)+len(content.Items) > 0) {
					has = append(has, field)
				}
			}
			switch {
			case mount == "":
				f.add(true, file, "write mountPath: /path/of/the/file", "the chart refuses %s.extraFiles.%s without mountPath", part, key)
			case len(has) > 1:
				f.add(true, file, "keep one of them", "the chart refuses %s.extraFiles.%s with %s", part, key, strings.Join(has, " and "))
			case len(has) == 1 && has[0] == "data" && !slices.Contains([]string{".yaml", ".yml", ".json", ".toml"}, path.Ext(mount)):
				f.add(true, f.get(part, "extraFiles", key, "data"), "write the text as stringData",
					"the chart refuses %s.extraFiles.%s: data is written as YAML, JSON or TOML, and mountPath ends in none of them", part, key)
			}
		}
	}
}

// https: templates/proxy.
func (f *finder) https() {
	on, hosts := f.get("proxy", "https", "enabled"), f.get("proxy", "https", "hosts")
	https := func(names ...string) string { return f.get(append([]string{"proxy", "https"}, names...)...).Str() }
	if on.Str() != "true" {
		if len(hosts.list()) > 0 {
			f.add(false, hosts, "set proxy.https.enabled: true, or remove the hosts", "proxy.https.hosts are not used: proxy.https.enabled is not true")
		}
		return
	}
	switch https("type") {
	case "", "letsencrypt":
		if len(hosts.list()) == 0 {
			f.add(true, on, "write proxy.https.hosts, or set enabled: false where an Ingress has the certificate",
				"the hub gets no HTTPS: proxy.https of type letsencrypt does nothing without hosts")
		} else if https("letsencrypt", "contactEmail") == "" {
			f.add(true, on, "write proxy.https.letsencrypt.contactEmail", "the chart refuses proxy.https of type letsencrypt without letsencrypt.contactEmail")
		}
	case "manual":
		for _, part := range []string{"cert", "key"} {
			if https("manual", part) == "" {
				f.add(true, on, "take the certificate from a Secret: type: secret, secret: {name: …}", "the chart refuses proxy.https of type manual without manual.%s", part)
			}
		}
	case "secret":
		if https("secret", "name") == "" {
			f.add(true, on, "write proxy.https.secret.name", "proxy.https of type secret names no Secret: Kubernetes refuses the proxy")
		}
	}
}

func (v value) list() []*yamlnode.Node { return v.Node.List() }

// maySetInPython says whether a piece of Python may set something: then nothing is certain.
func (f *finder) maySetInPython(word string) bool {
	return slices.ContainsFunc(f.keys("hub", "extraConfig"), func(key string) bool {
		return strings.Contains(f.get("hub", "extraConfig", key).Str(), word)
	}) || strings.Contains(f.get("hub", "extraConfig").Str(), word) || len(f.keys("hub", "extraFiles")) > 0 || f.get("hub", "existingSecret").set()
}

// database: jupyterhub_config.py, and templates/hub/pvc.yaml.
func (f *finder) database() {
	kind := f.get("hub", "db", "type").Str()
	if kind == "" {
		kind = "sqlite-pvc"
	}
	sqlite := strings.HasPrefix(kind, "sqlite-")
	if url := f.get("hub", "db", "url"); url.Str() != "" && sqlite {
		f.add(true, url, "set hub.db.type: postgres, or mysql", "hub.db.url is not used: hub.db.type is %s, and the hub keeps its users in SQLite", kind)
	} else if url.Str() == "" && (kind == "postgres" || kind == "mysql") && !f.get("hub", "config", "JupyterHub",
		"db_url").set() && !f.maySetInPython("db_url") {
		f.add(true, f.get("hub", "db", "type"), "write hub.db.url", "hub.db.type is %s without hub.db.url: the hub keeps its users in a file that is lost with its Pod", kind)
	}
	if password := f.get("hub", "db", "password"); password.Str() != "" && kind != "mysql" && kind != "postgres" {
		f.add(false, password, "set hub.db.type, or remove the password", "hub.db.password is not used: hub.db.type is %s", kind)
	}
	size, class := f.get("hub", "db", "pvc", "storage").Str(), f.get("hub", "db", "pvc", "storageClassName").Str()
	if pvc := f.get("hub", "db", "pvc"); (class != "" || size != "" && size != "1Gi") && kind != "sqlite-pvc" { // not the chart's own values
		f.add(false, pvc, "remove it, or set hub.db.type: sqlite-pvc", "hub.db.pvc is not used: hub.db.type is %s", kind)
	}
}

// storage: jupyterhub_config.py uses the settings of one type.
func (f *finder) storage() {
	kind := f.get("singleuser", "storage", "type").Str()
	if kind == "" {
		kind = "dynamic"
	}
	for _, setting := range [][2]string{{"dynamic", "storageClass"}, {"static", "pvcName"}} { // neither has the chart's own value
		other, key := setting[0], setting[1]
		set := f.get("singleuser", "storage", other)
		if f.get("singleuser", "storage", other, key).Str() != "" && kind != other && (kind == "static" || kind == "dynamic" || kind == "none") {
			f.add(false, set, "remove it, or set singleuser.storage.type: "+other, "singleuser.storage.%s is not used: singleuser.storage.type is %s", other, kind)
		}
	}
	if kind == "static" && f.get("singleuser", "storage", "static", "pvcName").Str() == "" {
		f.add(true, f.get("singleuser", "storage", "type"), "write singleuser.storage.static.pvcName", "singleuser.storage.type is static, and static.pvcName is missing: no server starts")
	}
}

// placeholders: templates/NOTES.txt.
func (f *finder) placeholders() {
	n := f.get("scheduling", "userPlaceholder", "replicas")
	if n.set() && n.Text != "0" && f.is(true, "scheduling", "userPlaceholder", "enabled") && !f.is(false, "scheduling", "podPriority", "enabled") {
		f.add(false, n, "set scheduling.podPriority.enabled: true, or remove the placeholders",
			"these placeholders make room for nobody: scheduling.podPriority.enabled is not true")
	}
}
