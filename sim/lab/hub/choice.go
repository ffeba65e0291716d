package hub

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// choice is a profile as the form shows it.
type choice struct {
	Slug, Title, Description string
	Has                      []string // what its servers have, e.g. 2 CPUs
	GPU                      bool
	Groups                   string // of users, whom the real hub offers it alone, where the lab knows none
	Chosen                   bool
	Options                  []listed
}

// listed is an option of a profile as the form shows it.
type listed struct {
	Name, Title, Other string // Other: the text of a choice that people type; empty: none
	Choices            []choice
}

// lists are a profile's options, in the order of their names.
func (p profile) lists() (out []listed) {
	for _, name := range slices.Sorted(maps.Keys(p.Options)) {
		o := p.Options[name]
		l := listed{Name: "profile-option-" + p.slug() + "--" + name, Title: cmp.Or(o.DisplayName, name)}
		if o.Unlisted.Enabled {
			l.Other = cmp.Or(o.Unlisted.Title, "Other...")
		}
		for _, key := range slices.Sorted(maps.Keys(o.Choices)) {
			l.Choices = append(l.Choices, choice{Slug: key, Title: cmp.Or(o.Choices[key].DisplayName, key), Chosen: o.Choices[key].Default})
		}
		out = append(out, l)
	}
	return out
}

// choices are the profiles that a user is offered; if the configuration has none, there is one of its defaults.
func (h *hub) choices(user string) []choice {
	list := h.offered(user)
	if len(h.values.Singleuser.ProfileList) == 0 {
		return []choice{describe(choice{Title: "Server", Chosen: true}, h.traitsOf(user))}
	}
	out := make([]choice, 0, len(list))
	for n, p := range list {
		t := h.traitsOf(user)
		mergeInto(t, table(p.Override))
		c := choice{Slug: p.slug(), Title: cmp.Or(p.DisplayName, p.slug()), Description: p.Description, Chosen: isDefault(list, n), Options: p.lists()}
		if h.oauth == nil {
			c.Groups = strings.Join(h.values.Custom.Homelab.ProfileGroups[p.slug()], ", ")
		}
		out = append(out, describe(c, t))
	}
	return out
}

func describe(c choice, t map[string]any) choice {
	add := func(limit, guarantee any, unit string) {
		switch {
		case limit != nil && guarantee != nil && fmt.Sprint(limit) != fmt.Sprint(guarantee):
			c.Has = append(c.Has, fmt.Sprintf("%v%s, %v guaranteed", limit, unit, guarantee))
		case limit != nil:
			c.Has = append(c.Has, fmt.Sprint(limit)+unit)
		case guarantee != nil:
			c.Has = append(c.Has, fmt.Sprintf("%v%s guaranteed", guarantee, unit))
		}
	}
	add(t["cpu_limit"], t["cpu_guarantee"], " CPUs")
	add(binary(t["mem_limit"]), binary(t["mem_guarantee"]), " of memory")
	extra, _ := t["extra_resource_limits"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		text := fmt.Sprintf("%v × %s", extra[name], name)
		if _, kind, ok := strings.Cut(name, "nvidia.com/"); ok {
			c.GPU = true
			if kind == "gpu" {
				text = fmt.Sprintf("%v %s", extra[name], map[bool]string{true: "GPU", false: "GPUs"}[fmt.Sprint(extra[name]) == "1"])
			}
		}
		c.Has = append(c.Has, text)
	}
	return c
}

// binary is memory of a trait, as Kubernetes writes it; nil if there is none.
func binary(v any) any {
	if v == nil || v == "" {
		return nil
	}
	n, err := memoryOf(v)
	if err != nil {
		return v
	}
	return resource.NewQuantity(n, resource.BinarySI).String() + "B"
}

// showHome sends a user to their server, or to the profiles.
func (h pages) showHome(w http.ResponseWriter, r *http.Request, user string) {
	to := "/hub/spawn"
	if h.running(user) != "" {
		to = "/user/" + user + "/"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// state is what is known of a user's server.
func (h *hub) state(user string) (pending, profile, failed string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.users[user]
	switch {
	case u == nil:
		return "", "", ""
	case u.server == nil:
		return "", "", u.failed
	case u.server.ready:
		return "ready", u.server.profile, ""
	}
	return u.server.pending, u.server.profile, ""
}

func (h pages) showProfiles(w http.ResponseWriter, r *http.Request, user string) {
	pending, _, failed := h.state(user)
	switch pending {
	case "ready":
		http.Redirect(w, r, "/user/"+user+"/", http.StatusSeeOther)
	case "spawn":
		http.Redirect(w, r, "/hub/spawn-pending/"+user, http.StatusSeeOther)
	default:
		h.show(w, http.StatusOK, "spawn", struct {
			view
			Choices []choice
			Failed  string
		}{view{Title: "Choose a server", User: user, Wait: pending == "stop"}, h.choices(user), failed})
	}
}

func (h pages) choseProfile(w http.ResponseWriter, r *http.Request, user string) {
	if u := h.user(user); u != nil { // not removed meanwhile
		options := map[string]any{"profile": r.FormValue("profile")}
		for field, values := range r.PostForm { // those of the chosen profile
			if name, ok := strings.CutPrefix(field, "profile-option-"+r.FormValue("profile")+"--"); ok && values[0] != "" && values[0] != "unlisted-choice" {
				options[name] = values[0]
			}
		}
		h.begin(u, options)
	}
	http.Redirect(w, r, "/hub/spawn-pending/"+user, http.StatusSeeOther)
}

// showProgress shows the events of a server that starts, which a script reads from the API.
func (h pages) showProgress(w http.ResponseWriter, r *http.Request, user string) {
	pending, profile, _ := h.state(user)
	if pending != "spawn" {
		http.Redirect(w, r, "/hub/home", http.StatusSeeOther)
		return
	}
	h.show(w, http.StatusOK, "progress", struct {
		view
		Profile string
	}{view{Title: "Your server is starting", User: user}, profile})
}

func (h pages) stopOwn(w http.ResponseWriter, r *http.Request, user string) {
	h.end(h.user(user))
	http.Redirect(w, r, "/hub/spawn", http.StatusSeeOther)
}
