# Completion of "go tool mage" and "mage" for zsh: source it in ~/.zshrc, after compinit.
_homelab_words={{.Words}}

if [[ ${_comps[go]-} != _homelab_mage ]]; then _homelab_go=${_comps[go]-}; fi

_homelab_mage() {
    local mage=mage first=2 line name
    local -a names shown values
    if [[ $words[1] == go ]]; then
        if (( CURRENT < 4 )) || [[ "$words[2] $words[3]" != 'tool mage' ]]; then
            if [[ -n $_homelab_go ]]; then $_homelab_go "$@"; else _files; fi
            return
        fi
        mage='go tool mage' first=4
    fi
    if [[ $PREFIX == -*=* ]]; then
        compset -P '*='
        _files
        return
    fi
    for line in ${(f)"$(sh -c "$_homelab_words" homelab "$mage" "$PREFIX" "${(@)words[first,CURRENT-1]}")"}; do
        name=${line%%$'\t'*}
        if [[ $name == *= ]]; then
            values+=("$name")
        else
            names+=("$name") shown+=("$name  ${line#*$'\t'}")
        fi
    done
    compadd -l -d shown -a names
    compadd -S '' -a values
}
compdef _homelab_mage go mage
