package jupyterhub

// VerifyService is the hub's service, with a token of its own, that verifies it.
const VerifyService = "homelab-verify"

// VerifyUser is whose servers it starts. Nobody can log in by this name.
const VerifyUser = "homelab-verify"

// verifyScopes are what the service may do: everything with one user and the servers
// of that user, and nothing with others (JupyterHub's scopes, filtered by user).
func verifyScopes() []string {
	me := "!user=" + VerifyUser
	return []string{"admin:users" + me, "admin:servers" + me, "access:servers" + me}
}
