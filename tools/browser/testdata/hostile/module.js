export const x = 7
