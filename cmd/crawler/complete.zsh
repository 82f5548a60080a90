#compdef crawler
# Completion for zsh. It is made from the table of flags: see crawler -h.
_crawler_subcommands() {
    local -a subcommands=(
{{- range .Commands}}{{if .Name}}
        '{{.Name}}:{{zsh .Usage}}'
{{- end}}{{end}}
    )
    _describe subcommand subcommands
}
_crawler() {
    local sub=
    if ((CURRENT > 2)); then
        case $words[2] in
        ({{join .Subcommands "|"}}) sub=$words[2]; shift words; ((CURRENT--)) ;;
        esac
    fi
    case $sub in
{{- range .Commands}}
    ('{{.Name}}')
        _arguments \
{{- range .Flags}}
            '{{if .Repeatable}}*{{end}}{{.Name}}[{{zsh .Usage}}]
{{- if eq .Takes "list"}}:{{.Value}}:_values -s , {{.Value}} {{.Words}}
{{- else if eq .Takes "words"}}:{{.Value}}:({{.Words}})
{{- else if eq .Takes "file"}}:{{.Value}}:_files
{{- else if eq .Takes "folder"}}:{{.Value}}:_files -/
{{- else if .Takes}}:{{zsh .Value}}: {{end}}' \
{{- end}}
            {{if or (eq .Name "") (eq .Name "help")}}'1: :_crawler_subcommands' {{end}}'*: :{{if .Files}}_files{{else}} {{end}}'
        ;;
{{- end}}
    esac
}
_crawler "$@"
