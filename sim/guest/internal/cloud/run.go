package cloud

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/netplan"
	"github.com/cps-gpu/homelab/sim/guest/internal/yamlvalue"
	"github.com/cps-gpu/homelab/sim/iso"
)

// Run is one run of cloud-init. It reads the seed by its own rules, written
// from cloud-init's documentation, not by the rules of the seed's renderer.
type Run struct {
	s    *machine.System
	v    *disk.View
	seed map[string][]byte // files of the CD; nil when there is none
	user map[string]any    // user-data
	meta map[string]any    // meta-data
	id   string            // instance-id
	off  bool              // no datasource: cloud-init does nothing
}

// New is cloud-init at the start of a boot.
func New(s *machine.System) *Run {
	cloudOf(s).begin()
	return &Run{s: s, v: s.Root()}
}

// Local is the stage before the network: find the seed, write what the network
// needs.
func (c *Run) Local() {
	c.stage("init-local")
	c.readSeed()
	if c.seed == nil {
		c.off = true
		st := cloudOf(c.s)
		st.mu.Lock()
		st.status, st.detail = "disabled", "Cloud-init disabled by cloud-init-generator"
		st.mu.Unlock()
		return
	}
	_ = c.v.Remove(resultFile)
	_ = c.v.Remove("/run/cloud-init/result.json")
	previous, _ := c.v.ReadFile("/var/lib/cloud/data/instance-id")
	c.v.Save("/var/lib/cloud/data/instance-id", c.id+"\n", 0o644)
	dir := "/var/lib/cloud/instances/" + path.Base(c.id)
	_ = c.v.MkdirAll(dir+"/scripts", 0o755)
	_ = c.v.Remove("/var/lib/cloud/instance")
	_ = c.v.Symlink(dir, "/var/lib/cloud/instance")
	c.v.Save(dir+"/user-data.txt", string(c.seed["user-data"]), 0o600) // at every boot, new or not
	c.v.Save("/var/log/cloud-init.log", "cloud-init 26.1: instance "+c.id+"\n", 0o644)
	if strings.TrimSpace(string(previous)) != c.id { // it was not here before
		c.writeNetwork()
	}
	c.setHostname()
}

// readSeed reads the CD: an ISO 9660 file system labelled cidata, with meta-data
// and user-data in its root.
func (c *Run) readSeed() {
	if c.s.Config.Seed == nil {
		return
	}
	image, err := c.s.Config.Seed()
	if err != nil || len(image) == 0 {
		return
	}
	files, label, err := iso.Read(image)
	if err != nil || !strings.EqualFold(label, "cidata") {
		return
	}
	meta, okMeta := files["meta-data"]
	user, okUser := files["user-data"]
	if !okMeta || !okUser {
		return
	}
	c.seed = files
	if err := yaml.Unmarshal(meta, &c.meta); err != nil {
		c.warn("failed loading meta-data: %v", err)
	}
	if c.id = yamlvalue.Text(c.meta["instance-id"]); c.id == "" {
		c.id = "nocloud"
	}
	st := cloudOf(c.s)
	st.mu.Lock()
	st.datasource, st.detail = "nocloud", "DataSourceNoCloud [seed=/dev/sr0]"
	st.mu.Unlock()
	c.parseUser(user)
}

func (c *Run) parseUser(data []byte) {
	first, _, _ := strings.Cut(string(data), "\n")
	switch first = strings.TrimRight(first, " \r"); {
	case len(bytes.TrimSpace(data)) == 0:
		return
	case strings.HasPrefix(first, "#!"):
		c.user = map[string]any{"runcmd": []any{string(data)}}
		return
	case first != "#cloud-config":
		c.warn("Unhandled non-multipart (text/x-not-multipart) userdata: '%.24q'...", data)
		return
	}
	if err := yaml.Unmarshal(data, &c.user); err != nil {
		c.user = nil
		c.warn("Failed loading yaml blob. Invalid format: %v", strings.SplitN(err.Error(), "\n", 2)[0])
		return
	}
	for key := range c.user {
		if !knownKey(key) {
			c.warn("cloud-config failed schema validation! Additional properties are not allowed ('%s' was unexpected)", key)
		}
	}
}

// writeNetwork hands the seed's network configuration, or DHCP on the first card
// where it has none, to netplan.
func (c *Run) writeNetwork() {
	out := "network:\n  version: 2\n"
	config, ok := c.seed["network-config"]
	switch {
	case ok:
		var doc map[string]any
		if err := yaml.Unmarshal(config, &doc); err != nil {
			c.fail("Failed to parse network-config: %v", strings.SplitN(err.Error(), "\n", 2)[0])
			return
		}
		if inner, ok := doc["network"].(map[string]any); ok {
			doc = inner
		}
		if yamlvalue.Text(doc["version"]) != "2" {
			c.fail("network-config version %s is not simulated", yamlvalue.Text(doc["version"]))
			return
		}
		data, err := yaml.Marshal(map[string]any{"network": doc})
		if err != nil {
			c.fail("network-config: %v", err)
			return
		}
		out = string(data)
	case len(c.s.Config.MACs) > 0:
		out += "  ethernets:\n    eth0:\n      match: {macaddress: \"" + strings.ToLower(c.s.Config.MACs[0]) + "\"}\n      set-name: eth0\n      dhcp4: true\n"
	}
	c.v.Save(netplan.File, out, 0o644)
	_ = c.v.Chmod(netplan.File, 0o600)
}

// Network is the stage when the network is up: disks, users, keys, files.
func (c *Run) Network() {
	if c.off {
		return
	}
	c.stage("init")
	c.script("bootcmd", "bootcmd")
	c.once("write_files", func() { c.writeFiles(false) })
	c.notSimulated()
	c.once("update_etc_hosts", c.etcHosts)
	c.once("users_groups", c.users)
	c.once("ssh", c.hostKeys)
	c.once("set_passwords", c.passwords)
}

// once runs a module once in an instance's life. That it was begun is written first, so a
// module whose boot is cut short does not run again, and those after it do
// (cloudinit/helpers.py, Runners.run and FileSemaphores).
func (c *Run) once(module string, run func()) {
	sem := "/var/lib/cloud/instance/sem/config_" + module
	if _, err := c.v.ReadFile(sem); err == nil {
		return
	}
	_ = c.v.MkdirAll(path.Dir(sem), 0o755)
	c.v.Save(sem, time.Now().UTC().Format(time.RFC3339)+"\n", 0o644)
	run()
}

// Settings is the stage of settings that others do not wait for.
func (c *Run) Settings() {
	if c.off {
		return
	}
	c.stage("modules-config")
	c.once("apt_configure", c.aptSources)
	c.once("timezone", c.timezone)
}

// Final is the last stage: packages, late files, commands.
func (c *Run) Final() {
	if c.off {
		return
	}
	c.stage("modules-final")
	c.once("package_update_upgrade_install", c.packages)
	c.once("write_files_deferred", func() { c.writeFiles(true) })
	c.perBoot()
	c.once("scripts_user", func() { c.script("runcmd", "scripts_user") })
}

// resultFile is there from the end of a boot to the beginning of the next.
const resultFile = "/var/lib/cloud/data/result.json"

// Finish reports the result, and powers off if the seed says so.
func (c *Run) Finish() {
	if c.off {
		return
	}
	st := cloudOf(c.s)
	st.mu.Lock()
	st.finish()
	result := st.result()
	st.mu.Unlock()
	c.v.Save(resultFile, result, 0o644)
	_ = c.v.Symlink(resultFile, "/run/cloud-init/result.json")
	c.v.Save("/var/lib/cloud/instance/boot-finished", time.Now().UTC().Format(time.RFC3339)+"\n", 0o644)
	power, ok := c.user["power_state"].(map[string]any)
	if !ok || power["condition"] == false {
		return
	}
	c.once("power_state_change", func() {
		if mode := yamlvalue.Text(power["mode"]); slices.Contains([]string{"poweroff", "halt", "reboot"}, mode) {
			c.s.PowerOff(mode == "reboot")
		}
	})
}

// knownKey are the top-level keys of cloud-config's schema.
func knownKey(key string) bool {
	const known = " allow_public_ssh_keys ansible apk_repos apt apt_pipelining apt_reboot_if_required apt_update apt_upgrade authkey_hash autoinstall " +
		"bootcmd byobu_by_default ca-certs ca_certs chef chpasswd cloud_config_modules cloud_final_modules cloud_init_modules create_hostname_file " +
		"device_aliases disable_ec2_metadata disable_root disable_root_opts disk_setup drivers fan final_message fqdn fs_setup groups growpart grub-dpkg " +
		"grub_dpkg hostname keyboard landscape launch-index locale locale_configfile lxd manage_etc_hosts manage_resolv_conf mcollective merge_how " +
		"merge_type migrate mount_default_fields mounts no_ssh_fingerprints ntp output package_reboot_if_required package_update package_upgrade packages " +
		"password phone_home power_state prefer_fqdn_over_hostname preserve_hostname puppet random_seed reporting resize_rootfs resolv_conf rh_subscription " +
		"rsyslog runcmd salt_minion snap spacewalk ssh ssh_authorized_keys ssh_deletekeys ssh_fp_console_blacklist ssh_genkeytypes ssh_import_id " +
		"ssh_key_console_blacklist ssh_keys ssh_publish_hostkeys ssh_pwauth ssh_quiet_keygen swap system_info timezone ubuntu_advantage ubuntu_pro " +
		"updates user users vendor_data version wireguard write_files yum_repo_dir yum_repos zypper "
	return strings.Contains(known, " "+key+" ")
}
