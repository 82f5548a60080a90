# Completion for bash. It is made from the table of flags: see crawler -h.
_crawler() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub= flags= done= IFS=$' \t\n'
    COMPREPLY=()
    # -flag=value comes in three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]] && ((COMP_CWORD > 1)); then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    [[ $prev == --* ]] && prev=${prev#-}
    if ((COMP_CWORD > 1)); then
        case ${COMP_WORDS[1]} in
        {{join .Subcommands "|"}}) sub=${COMP_WORDS[1]} ;;
        esac
    fi
    case $sub in
{{- range .Commands}}
    '{{.Name}}')
        case $prev in
{{- range .Flags}}
{{- if eq .Takes "list"}}
        {{.Name}})
            [[ $cur == *,* ]] && done=${cur%,*},
            COMPREPLY=($(compgen -P "$done" -W '{{.Words}}' -- "${cur##*,}")); return ;;
{{- else if eq .Takes "words"}}
        {{.Name}}) COMPREPLY=($(compgen -W '{{.Words}}' -- "$cur")); return ;;
{{- else if eq .Takes "file"}}
        {{.Name}}) IFS=$'\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return ;;
{{- else if eq .Takes "folder"}}
        {{.Name}}) IFS=$'\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); return ;;
{{- else if .Takes}}
        {{.Name}}) return ;;
{{- end}}
{{- end}}
        esac
        flags='{{range $i, $f := .Flags}}{{if $i}} {{end}}{{.Name}}{{end}}'
{{- if eq .Name ""}}
        ((COMP_CWORD == 1)) && COMPREPLY=($(compgen -W '{{join $.Subcommands " "}}' -- "$cur"))
{{- else if eq .Name "help"}}
        COMPREPLY=($(compgen -W '{{join $.Subcommands " "}}' -- "$cur"))
{{- else if .Files}}
        IFS=$'\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); IFS=$' \t\n'
{{- end}}
        ;;
{{- end}}
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    fi
}
complete -F _crawler crawler
