export const text = 'module';
