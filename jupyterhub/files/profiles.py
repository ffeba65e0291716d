# Offers a profile only to members of the groups that it names.
#
# z2jh runs this after the chart's own configuration; kubespawner evaluates a callable
# profile_list for the form and again for each start, so that a profile that somebody
# cannot see cannot be asked for by the API either.
from tornado import web
from z2jh import get_config


def homelab_profiles(spawner):
    groups = get_config("custom.homelab.profileGroups", {})
    verifier = get_config("custom.homelab.verifyUser")
    mine = {group.name for group in spawner.user.groups}
    offered = [
        profile
        for profile in get_config("singleuser.profileList", [])
        if profile["slug"] not in groups
        or mine.intersection(groups[profile["slug"]])
        or spawner.user.name == verifier  # who cannot log in
    ]
    if not offered:
        # With an empty list kubespawner would start the chart's defaults instead.
        raise web.HTTPError(403, "There is no profile for you: ask for membership in a group that has one")
    return offered


c.KubeSpawner.profile_list = homelab_profiles  # noqa: F821
