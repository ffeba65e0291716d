// Package hub simulates JupyterHub of the Zero to JupyterHub chart: its REST API, its spawner,
// its users' servers, and pages for a person with a browser.
//
// It reads the chart's Secrets, and makes a server's pod of them as KubeSpawner would; the pod
// is scheduled, gets its volumes and its GPUs, or is refused, by the cluster that it is in. What
// runs in it is not Jupyter: a kernel answers the one program by which a hub is verified, and a
// page runs commands in the pod. The pages say so.
//
// With the cluster's own login people sign in as with JupyterHub's GenericOAuthenticator. Not simulated:
// shells and SFTP of SSH, accounts, groups and providers outside the cluster (a password that is everybody's is
// checked, another is not), sign-up, the admins' pages, named servers, culling.
package hub
